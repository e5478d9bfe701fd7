"""A process that judges for a pool: `python -m pivotrl.verifiers.worker`, started by `child.py`, spoken to in lines
(`wire.py`) over its standard input and output. It ends when its input does.

A verdict may take hold of the process (a verifier that spins in C lets no Python run), so the limits are the kernel's:
an alarm that nothing catches ends a process whose pool is gone, and memory is limited.
"""

import os
import resource
import signal
import sys
from typing import Any, BinaryIO

from pivotrl.verifiers.attempt import Attempt
from pivotrl.verifiers.base import Verifier, VerifierConfig
from pivotrl.verifiers.registry import build_verifier
from pivotrl.verifiers.wire import BadParams, Hello, decode, encode, judge_one

MEMORY = 4 * 2**30
"""Bytes of address space that judging may add to what a worker has once its verifier is built. Beyond it, the verdict
is `verifier_error` (MemoryError) or, where a library does not survive that, `crashed`."""
KEPT_MEMORY = 2**30
"""Bytes that a worker may have grown by when it is idle; one that keeps more (fragments, caches) is replaced."""
REPLACE_ME = 75
"""Exit code of a worker that asks for a fresh one in its place; what it has not judged is judged there."""
LOOK_EVERY = 64
LONG_LINE = 1_000_000
"""A worker looks at its memory after so many verdicts, and after a job of so many bytes."""
_PAGE = resource.getpagesize()


def serve(source: BinaryIO, sink: BinaryIO) -> int:
    """Answer lines until they end; returns the exit code."""
    first = source.readline()
    if not first.endswith(b"\n"):  # the pool was gone before it said anything
        return 0
    hello = Hello(*decode(first))
    sys.path[:] = hello.path
    try:
        verifier = build_verifier(VerifierConfig(**hello.config))
    except Exception as error:
        sink.write(encode(["refused", f"{type(error).__name__}: {error}"]))
        return 0
    resident = _limit_memory()
    sink.write(encode(["ready"]))
    shared = None
    judged = 0
    while (line := source.readline()).endswith(b"\n"):
        try:
            received = decode(line)
        except (ValueError, RecursionError):
            received = None
        if isinstance(received, dict):
            shared = received
            continue
        signal.setitimer(signal.ITIMER_REAL, hello.seconds)
        sink.write(encode(_judge(verifier, shared, received)))
        signal.setitimer(signal.ITIMER_REAL, 0)
        judged += 1
        looks = judged % LOOK_EVERY == 0 or len(line) > LONG_LINE
        if looks and _memory()[1] > resident + KEPT_MEMORY:
            return REPLACE_ME
    return 0


def _judge(verifier: Verifier, shared: dict[str, Any] | None, received: list[Any] | None) -> list[Any]:
    """The answer to one job; `["back"]` for one that crossed but cannot be read in this process."""
    if shared is None or received is None:
        return ["back"]
    items, text = received
    attempt = Attempt(shared["expert"], items, text, shared["tools"], shared["messages"], shared["metadata"])
    try:
        verdict = judge_one(verifier, attempt, shared["params"])
    except BadParams as error:
        return ["params", str(error)]
    return [verdict.reward, verdict.reason, verdict.detail]


def _limit_memory() -> int:
    """Limit the process to MEMORY more than it has; returns the bytes that are resident now (0: not known here)."""
    size, resident = _memory()
    if size:
        hard = resource.getrlimit(resource.RLIMIT_AS)[1]
        limit = size + MEMORY if hard == resource.RLIM_INFINITY else min(size + MEMORY, hard)
        resource.setrlimit(resource.RLIMIT_AS, (limit, hard))
    return resident


def _memory() -> tuple[int, int]:
    """Bytes of address space and of resident memory; zeros where the system does not tell (not Linux)."""
    try:
        with open("/proc/self/statm", "rb") as file:
            size, resident = file.read().split()[:2]
    except OSError:
        return 0, 0
    return int(size) * _PAGE, int(resident) * _PAGE


def main() -> int:
    # Ctrl-C, a scheduler's notice before the end, a hang-up: for the pool to act on. Its end closes our input.
    for name in ("SIGINT", "SIGTERM", "SIGHUP", "SIGUSR1", "SIGUSR2"):
        signal.signal(getattr(signal, name), signal.SIG_IGN)
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    source = os.fdopen(os.dup(0), "rb", buffering=2**18)
    sink = os.fdopen(os.dup(1), "wb", buffering=0)
    # What a verifier prints goes where errors go, and there is nothing for it to read.
    with open(os.devnull, "rb") as nothing:
        os.dup2(nothing.fileno(), 0)
    os.dup2(2, 1)
    try:
        return serve(source, sink)
    except BrokenPipeError:  # the pool is gone
        return 0


if __name__ == "__main__":
    sys.exit(main())
