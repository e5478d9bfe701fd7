"""Judges texts that carry a sentinel while every door to the outside is watched, and prints what came through it.

  python -m tests.verifiers.watch STEP NAME[:PRESET]... > found.json

Judges every STEPth text; prints {label: [what a verifier touched, ...]}.

First all texts are judged with a neutral word in the sentinel's place: what is imported, opened and compiled once for
good is so then, and nothing of it may hold that word. After that no event is allowed but parsing Python to a tree.
"""

import builtins
import contextlib
import importlib
import json
import os
import re
import sys
import tempfile
from collections.abc import Iterator
from urllib.parse import urlsplit

from pivotrl.verifiers.attempt import Attempt
from pivotrl.verifiers.base import Verdict, Verifier, VerifierConfig
from pivotrl.verifiers.hostile_cases import CALLS, MESSAGES
from pivotrl.verifiers.pool import Job
from pivotrl.verifiers.registry import build_verifier
from pivotrl.verifiers.wire import judge_one
from tests.verifiers.sentinels import texts_with

SENTINEL, NEUTRAL = "zqsentinel", "zqneutral_"
_DOORS = """open exec import subprocess os. socket pickle marshal ctypes shutil glob tempfile urllib http sqlite3 pty
code. mmap pathlib webbrowser syslog fcntl signal"""
DOORS = tuple(_DOORS.split())
"""Beginnings of audit events' names: https://docs.python.org/3/library/audit_events.html"""
ONLY_AST = 0x400


def attempts(word: str) -> Iterator[Attempt]:
    """The texts in the places of a model's answer to experts of every kind: every eighth text in each place, the
    others in one."""
    texts = texts_with(word)
    history = [{"role": "tool", "tool_call_id": "1", "content": "def f(a):\n    return a\n"}]
    experts = [{"type": "message", "content": text} for kind in MESSAGES.values() for text in kind]
    experts += [
        {"type": "function_call", "name": name, "arguments": json.dumps(arguments)}
        for kind in CALLS.values()
        for name, arguments in kind
    ]
    for number, expert in enumerate(experts):
        for place, text in enumerate(texts):
            items = list(answers(expert, text))
            chosen = items if place % 8 == number % 8 else items[(place + number) % len(items) :][:1]
            for item in chosen:
                yield Attempt(expert, [item], None, [], history, {"harness": "terminus_2"})
                yield Attempt(expert, [item], f"<think>{text}</think>\n{item.get('content') or ''}", [], history, {})


def answers(expert: dict, text: str) -> Iterator[dict]:
    if expert["type"] == "message":
        yield {"type": "message", "content": text}
        yield {"type": "message", "content": expert["content"] + "\n" + text}
        if expert["content"].startswith("{"):
            command = {"keystrokes": text, "duration": 0.1}
            yield {
                "type": "message",
                "content": json.dumps({"analysis": text, "plan": text, "commands": [command], "task_complete": True}),
            }
        return
    arguments = json.loads(expert["arguments"])
    for key, value in arguments.items():
        if isinstance(value, str):
            yield {**expert, "arguments": json.dumps({**arguments, key: text})}
            yield {**expert, "arguments": json.dumps({**arguments, key: value + "\n" + text})}
    yield {**expert, "arguments": text}
    yield {**expert, "name": text}
    yield {**expert, "arguments": json.dumps({text: text})}


class Watch:
    """Notes what comes through a door: while `word` is neutral, what holds it; afterwards, everything."""

    def __init__(self) -> None:
        self.word, self.strict, self.found, self.on, self.port = NEUTRAL, False, [], False, None
        sys.addaudithook(self.audit)
        for name in ("stat", "lstat", "access", "readlink"):
            setattr(os, name, self.noting(name, getattr(os, name)))
        self._load = importlib._bootstrap._gcd_import
        importlib._bootstrap._gcd_import = self.load
        self._compile, self._re_compile = builtins.compile, re._compile
        builtins.compile, re._compile = self.compile, self.pattern

    def note(self, door: str, what: object) -> None:
        if self.on and (self.strict or self.word in str(what)):
            self.on = False  # what noting touches is not the verifier's
            self.found.append(f"{door}: {str(what)[:150]}")
            self.on = True

    def audit(self, event: str, arguments: tuple) -> None:
        if self.on and event.startswith(DOORS) and not self.allowed(event, arguments):
            self.note(event, arguments)

    def allowed(self, event: str, arguments: tuple) -> bool:
        """For a syntax error, Python looks whether the tree's pretended file has the line; and a judge may connect to
        its own endpoint."""
        if self.port is not None and event in ("socket.connect", "socket.getaddrinfo", "socket.__new__"):
            return event == "socket.__new__" or ("127.0.0.1", self.port) in (arguments[:2], arguments[-1])
        return event == "open" and arguments[0] == "<unknown>"

    def load(self, name, *rest):
        if name not in sys.modules or self.word in name:
            self.note("import", name)
        return self._load(name, *rest)

    def compile(self, source, filename, mode, flags=0, *rest, **more):
        if not flags & ONLY_AST:
            self.note("compile", source)
        return self._compile(source, filename, mode, flags, *rest, **more)

    def pattern(self, pattern, flags):
        if self.on and self.word in str(pattern):
            self.note("pattern", pattern)
        return self._re_compile(pattern, flags)

    def noting(self, name, function):
        def noted(path, *rest, **more):
            self.note(f"os.{name}", path)
            return function(path, *rest, **more)

        return noted

    @contextlib.contextmanager
    def watching(self, word: str, strict: bool) -> Iterator[None]:
        self.word, self.strict, self.on = word, strict, True
        try:
            yield
        finally:
            self.on = False


def main(step: int, labels: list[str]) -> None:
    verifiers = {}
    for label in labels:
        if label.startswith("judge="):
            cache = tempfile.mkdtemp()
            params = {"endpoint": label.removeprefix("judge="), "model": "stub", "cache": cache, "concurrency": 2}
            verifiers[label] = build_verifier(VerifierConfig(name="judge", params=params))
            continue
        name, _, preset = label.rpartition(":") if label.endswith((":nemo_gym", ":robust")) else (label, "", None)
        verifiers[label] = build_verifier(VerifierConfig(name=name, preset=preset))
    watch, result = Watch(), {}
    for label, verifier in verifiers.items():
        watch.found = []
        watch.port = urlsplit(label.removeprefix("judge=")).port if label.startswith("judge=") else None
        for word, strict in ((NEUTRAL, False), (SENTINEL, True)):
            jobs = [(attempt, None) for attempt in list(attempts(word))[::step]]
            with watch.watching(word, strict):
                verdicts = judge_all(verifier, jobs)
            watch.found += [f"raised {found.detail}" for found in verdicts if found.reason == "verifier_error"]
        result[label] = sorted(set(watch.found))
    json.dump(result, sys.stdout)


def judge_all(verifier: Verifier, jobs: list[Job]) -> list[Verdict]:
    if verifier.in_pool:
        return [judge_one(verifier, *job) for job in jobs]
    found = verifier.verify_all(jobs)
    asked = sum(verdict.reason.startswith("judge_") for verdict in found)
    return [*found] if asked > len(jobs) / 4 else [Verdict(0.0, "verifier_error", f"asked {asked} times only")]


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:])
