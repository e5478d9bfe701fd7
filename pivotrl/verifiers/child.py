"""One worker as its pool sees it: a process, what was sent to it, and how long it has been at its present verdict."""

import contextlib
import fcntl
import os
import signal
import subprocess
import sys
import time
from collections import deque
from pathlib import Path
from typing import Any

from pivotrl.verifiers.base import VerifierConfig
from pivotrl.verifiers.clock import WALL, Clock
from pivotrl.verifiers.wire import Hello, decode, encode, encode_shared, same

_START = 60.0
"""Seconds that a worker has to import its verifier and build it."""
_CLOSING = 1.0
"""Seconds that an idle worker has to end by itself."""
_PIPE = 2**20
"""Bytes that wait between the pool and a worker, where the system allows it; pipes hold 64 KiB otherwise."""
_PACKAGES = str(Path(__file__).resolve().parents[2])
_OF_A_RANK = ("RANK", "LOCAL_", "GROUP_", "ROLE_", "WORLD_SIZE", "MASTER_", "TORCHELASTIC_", "TORCH_NCCL_", "PMI_")
"""A worker is no rank of the run: what begins so is not handed to it."""


class Child:
    """Not thread-safe; `pending` holds the jobs that it has not answered, by the pool's numbers."""

    def __init__(self, config: VerifierConfig, seconds: float):
        self.pending: deque[int] = deque()
        self.ready = False
        self.answered = 0
        self.since = 0.0
        """When it last answered, or got something to do; `time.monotonic()`."""
        self._seconds = seconds
        self._out = bytearray()
        self._in = bytearray()
        self._queued = self._written = 0
        self._ends: deque[int] = deque()
        self._shared: tuple[Any, ...] | None = None
        self._clock = Clock()
        environment = {name: value for name, value in os.environ.items() if not name.startswith(_OF_A_RANK)}
        if not _PACKAGES.endswith("-packages"):  # installed, it is found as it was here
            environment["PYTHONPATH"] = os.pathsep.join(filter(None, (_PACKAGES, environment.get("PYTHONPATH"))))
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "pivotrl.verifiers.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,
            env=environment,
        )
        self.stdin, self.stdout = self._process.stdin.fileno(), self._process.stdout.fileno()
        if hasattr(fcntl, "F_SETPIPE_SZ"):
            with contextlib.suppress(OSError):  # more than this user may have
                fcntl.fcntl(self.stdin, fcntl.F_SETPIPE_SZ, _PIPE)
        os.set_blocking(self.stdin, False)
        os.set_blocking(self.stdout, False)
        self._send(encode(Hello([os.path.abspath(entry) for entry in sys.path], config.model_dump(), WALL * seconds)))

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def ended(self) -> bool:
        return self._process.poll() is not None

    @property
    def writing(self) -> bool:
        """Whether bytes wait to be written."""
        return bool(self._out)

    @property
    def backlog(self) -> int:
        """Bytes that wait to be written."""
        return self._queued - self._written

    def ask(self, number: int, shared: tuple[Any, ...], job: list[Any]) -> None:
        """Queue a job, and its shared half where that is not the last one sent; `write` sends.

        Raises ValueError, TypeError or RecursionError where JSON cannot hold it; then nothing is queued.
        """
        line = encode(job)
        if not self.pending:
            self.since = time.monotonic()
        if not same(self._shared, shared):
            line = encode_shared(shared) + line
            self._shared = shared
        self._send(line)
        self.pending.append(number)
        self._ends.append(self._queued)

    def _send(self, line: bytes) -> None:
        self._out += line
        self._queued += len(line)

    def write(self) -> None:
        """Write what the pipe takes. That the process is gone is for `read` to find."""
        try:
            while self._out:
                with memoryview(self._out) as waiting:
                    sent = os.write(self.stdin, waiting)
                del self._out[:sent]
                self._written += sent
        except BlockingIOError:
            return
        except BrokenPipeError:
            self._out.clear()

    def read(self) -> tuple[list[Any], bool]:
        """The answers that arrived, and whether the process is still there."""
        alive = True
        try:
            while part := os.read(self.stdout, 65536):
                self._in += part
            alive = False
        except BlockingIOError:
            pass
        *lines, rest = self._in.split(b"\n")
        self._in = bytearray(rest)
        return [decode(bytes(line)) for line in lines], alive

    def answer(self) -> int:
        """The number of the job that the next answer is for."""
        self.answered += 1
        self._ends.popleft()
        return self.pending.popleft()

    def overdue(self) -> bool:
        """Whether the present verdict (or the start) is over its limit; asked at every tick."""
        if self.ready and (not self.pending or self._written < self._ends[0]):
            self._clock.reset()
            return False
        spent, wall = self._clock.spent((self.ready, self.answered), self.pid)
        limit = self._seconds if self.ready else max(self._seconds, _START)
        return spent > limit or wall > WALL * limit

    def hang_up(self) -> None:
        """Close its input: it ends by itself when it gets there."""
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()

    def end(self, kill: bool = False) -> int:
        """Close the pipes, wait for the process, and return its exit code (negative: the signal that ended it)."""
        if kill:
            self._process.kill()
        self.hang_up()
        try:
            code = self._process.wait(_CLOSING)
        except subprocess.TimeoutExpired:
            self._process.kill()
            code = self._process.wait()
        self._process.stdout.close()
        return code


def describe_end(code: int) -> str:
    """How a process ended, in words."""
    if code >= 0:
        return f"the worker ended by itself with exit code {code}"
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = f"signal {-code}"
    return f"the worker was ended by {name}"
