"""A judge on loopback that answers as a test tells it to."""

import contextlib
import json
import re
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Reply = Callable[[str], Any]
"""From the prompt to the answer's text, or to (status, body) with a body of bytes."""


@dataclass
class Stub:
    """What a test sees of the server."""

    endpoint: str
    prompts: list[str] = field(default_factory=list)
    bodies: list[dict] = field(default_factory=list)
    headers: list[dict] = field(default_factory=list)


@contextlib.contextmanager
def judge(reply: Reply) -> Iterator[Stub]:
    """A server on a free port, for as long as the block runs."""
    lock = threading.Lock()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True  # else each answer waits 40 ms for an acknowledgement of its header

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            prompt = body["messages"][0]["content"]
            with lock:
                stub.prompts.append(prompt)
                stub.bodies.append(body)
                stub.headers.append(dict(self.headers))
            answer = reply(prompt)
            status, content = answer if isinstance(answer, tuple) else (200, completion(answer))
            with contextlib.suppress(OSError):  # the client may be gone by now
                self.send_response(status)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                for part in content if isinstance(content, list) else [content]:
                    self.wfile.write(part)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    stub = Stub(f"http://127.0.0.1:{server.server_address[1]}/v1")
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield stub
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def completion(text: str | None, finish: str = "stop") -> bytes:
    """A chat completion of 100 + 10 tokens."""
    choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": finish}
    return json.dumps({"choices": [choice], "usage": {"prompt_tokens": 100, "completion_tokens": 10}}).encode()


def verdict(prompt: str, word: str) -> str:
    """The line that a prompt asks for."""
    return re.findall(r"VERDICT-[0-9a-f]{16}: (?:SAME|DIFFERENT)", prompt)[-1 if word == "DIFFERENT" else -2]


def actions(prompt: str) -> tuple[Any, Any]:
    """The two actions that a prompt shows."""
    found = re.findall(r"^BEGIN-[0-9a-f]{16} ACTION [AB]\n(.*)\nEND-[0-9a-f]{16} ACTION [AB]$", prompt, re.M)
    return json.loads(found[0]), json.loads(found[1])


def always(word: str) -> Reply:
    """A judge of one opinion, which it explains first."""
    return lambda prompt: "Let me see.\n\n" + verdict(prompt, word) + "\n"
