import contextlib
import gzip
import re
import socket
import threading
import time
from types import SimpleNamespace

import pytest

from pivotrl.verifiers.judge.endpoint import Endpoint, JudgeUnreachable
from pivotrl.verifiers.judge.params import JudgeParams
from tests.verifiers.judge.stub import completion, judge


def endpoint(stub, **params):
    return Endpoint(JudgeParams(endpoint=stub.endpoint, model="m", **{"retries": 3, **params}), first_wait=0.01)


@pytest.mark.parametrize(
    "fault", [(429, b"slow down"), (500, b""), (503, b"{}"), (200, b"<html>"), (200, b'{"choices": []}')]
)
def test_passing_faults_are_tried_again(fault):
    replies = [fault, fault, (200, completion("yes"))]
    with judge(lambda prompt: replies.pop(0)) as stub:
        answer = endpoint(stub).ask("p", ("a", "b"))
        assert (answer.text, answer.prompt_tokens, answer.completion_tokens) == ("yes", 100, 10)
        assert len(stub.prompts) == 3
        assert stub.bodies[0] == {
            "model": "m",
            "messages": [{"role": "user", "content": "p"}],
            "max_tokens": 1024,
            "temperature": 0.0,
        }


@pytest.mark.parametrize(
    "status,body,tries,remedy",
    [
        (401, b"no key", 1, "api_key_env"),
        (404, b"no model", 1, "verifier.params.model"),
        (400, b"bad request", 1, "what the server says"),
        (400, b"Unsupported parameter: 'max_tokens' is not supported with this model", 1, "what the server says"),
        (302, b"", 1, "what the server says"),
        (429, b"slow down", 4, "concurrency"),
        (500, b"broken", 4, "server's log"),
        (200, b"[" * 100_000, 4, "OpenAI-compatible"),
        (200, b'{"choices": [{"message": {"content": {}}}]}'.replace(b"{}", b'{"a": 1}'), 4, "OpenAI-compatible"),
    ],
)
def test_lasting_faults_name_the_endpoint_and_the_remedy(status, body, tries, remedy):
    with judge(lambda prompt: (status, body)) as stub:
        with pytest.raises(JudgeUnreachable, match=remedy) as fault:
            endpoint(stub).ask("p", ("a", "b"))
        assert stub.endpoint in str(fault.value)
        assert len(stub.prompts) == tries
        assert len(str(fault.value)) < 700


def test_a_late_answer_is_tried_again():
    waits = [0.6, 0.0]

    def reply(prompt):
        time.sleep(waits.pop(0))
        return "yes"

    with judge(reply) as stub:
        assert endpoint(stub, timeout=0.3).ask("p", ("a", "b")).text == "yes"
        assert len(stub.prompts) == 2


def test_an_answer_that_drips_is_late():
    def drip():
        for letter in completion("yes" * 1000):
            time.sleep(0.02)
            yield bytes([letter])

    class Dripping(list):
        def __len__(self):
            return len(completion("yes" * 1000))

        def __iter__(self):
            return drip()

    with judge(lambda prompt: (200, Dripping())) as stub:
        start = time.perf_counter()
        with pytest.raises(JudgeUnreachable, match="no whole answer within"):
            endpoint(stub, timeout=0.3, retries=1).ask("p", ("a", "b"))
        assert time.perf_counter() - start < 3


def whole_request(connection):
    """All of a request: what is left unread when a connection is closed resets it."""
    request = connection.recv(65536)
    while b"\r\n\r\n" not in request:
        request += connection.recv(65536)
    head, _, body = request.partition(b"\r\n\r\n")
    length = int(re.search(rb"(?i)content-length: *(\d+)", head)[1])
    while len(body) < length:
        body += connection.recv(65536)
    return request


@contextlib.contextmanager
def raw_server(answer):
    """A server that sends the parts of `answer`, from its request to bytes; yields its endpoint."""
    listening = socket.create_server(("127.0.0.1", 0))

    def serve():
        with contextlib.suppress(OSError):
            while True:
                connection, _ = listening.accept()
                with connection, contextlib.suppress(OSError):
                    for part in answer(whole_request(connection)):
                        connection.sendall(part)

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield SimpleNamespace(endpoint=f"http://127.0.0.1:{listening.getsockname()[1]}/v1")
    finally:
        listening.close()


def test_headers_that_drip_are_late():
    def drip(request):
        for letter in b"HTTP/1.1 200 OK\r\nX-Header: " + b"a" * 200:
            yield bytes([letter])
            time.sleep(0.05)

    with raw_server(drip) as stub:
        start = time.perf_counter()
        with pytest.raises(JudgeUnreachable, match="no whole answer within"):
            endpoint(stub, timeout=0.3, retries=0).ask("p", ("a", "b"))
        assert time.perf_counter() - start < 5, "11 s where each byte is waited for"


@pytest.mark.parametrize("head", [b"HTTP/1.1 400 Bad\r\nConnection: close\r\n\r\n", b"HTTP/1.1 "])
def test_a_key_that_comes_back_is_not_shown(monkeypatch, head):
    monkeypatch.setenv("JUDGE_KEY", "sk-secret")

    def repeat(request):
        (line,) = [line for line in request.split(b"\r\n") if line.startswith(b"Authorization")]
        return [head + line + b"\r\n\r\n"]

    with raw_server(repeat) as stub, pytest.raises(JudgeUnreachable, match="Bearer") as fault:
        endpoint(stub, api_key_env="JUDGE_KEY", retries=0).ask("p", ("a", "b"))
    assert "sk-secret" not in str(fault.value)
    with pytest.raises(ValueError, match="holds a user name or a password") as fault:
        Endpoint(JudgeParams(endpoint="http://user:sk-secret@127.0.0.1:8000/v1", model="m"))
    assert "sk-secret" not in str(fault.value)


def test_packed_answers_are_neither_asked_for_nor_unpacked():
    packed = gzip.compress(completion("yes"))
    head = f"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: {len(packed)}\r\n\r\n".encode()
    requests = []
    server = raw_server(lambda request: requests.append(request) or [head + packed])
    with server as stub, pytest.raises(JudgeUnreachable, match="no chat completion"):
        endpoint(stub, retries=0).ask("p", ("a", "b"))
    assert b"gzip" not in requests[0]


@pytest.mark.parametrize("count", ["1e999", "9" * 50])
def test_counts_that_are_none_are_no_crash(count):
    body = completion("yes").replace(b"100", count.encode())
    with judge(lambda prompt: (200, body)) as stub:
        try:
            assert endpoint(stub, retries=0).ask("p", ("a", "b")).prompt_tokens < 2**63
        except JudgeUnreachable:
            assert count == "1e999"


def test_no_content_is_an_empty_answer():
    with judge(lambda prompt: (200, completion(None))) as stub:
        assert endpoint(stub).ask("p", ("a", "b")).text == ""


def test_a_question_that_is_refused_for_its_content_does_not_stop_a_run():
    replies = [(400, b'{"error": {"code": "content_filter"}}'), (200, completion("yes")), (400, b"odd"), (401, b"")]
    with judge(lambda prompt: replies.pop(0)) as stub:
        asked = endpoint(stub)
        assert asked.ask("p", ("a", "b")).refused
        assert asked.ask("p", ("a", "b")).text == "yes"
        assert asked.ask("p", ("a", "b")).refused  # it answers other questions
        with pytest.raises(JudgeUnreachable, match="HTTP 401"):
            asked.ask("p", ("a", "b"))
