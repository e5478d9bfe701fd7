"""Start the ranks of a command on this machine and end them together, so that a user's error stays one line.

torchrun would do, but it answers a rank's error with a traceback of its own and always exits with code 1.
"""

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import IO, Protocol

import torch.distributed as dist

from pivotrl.policy import lost

_GRACE_SECONDS = 2.0
_ENDS_WITH_ITS_PARENT = """
import ctypes, os, signal, sys
PR_SET_PDEATHSIG = 1
if ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, ctypes.c_ulong(signal.SIGKILL)):
    sys.exit("prctl(PR_SET_PDEATHSIG) is refused here: start the ranks with torchrun")
if os.getppid() != int(sys.argv[1]):  # it died before that
    sys.exit(1)
os.execv(sys.argv[2], sys.argv[2:])
"""
"""Becomes a rank, which the kernel ends when the thread that started it does: prctl(2), kept over an exec.

A process of its own sets it, because a fork of this one, which has threads, may run little before its exec.
"""


class Process(Protocol):
    """What is asked of a rank's process: `subprocess.Popen`."""

    def poll(self) -> int | None: ...
    def kill(self) -> None: ...
    def wait(self) -> int: ...


Start = Callable[[dict[str, str], IO[bytes] | None], Process]
"""Starts a rank with an environment, its output going to a file or to this process's."""


def run_ranks(num_ranks: int, command: list[str], start: Start | None = None) -> int:
    """Run `python command...` once for each rank, with the environment that torchrun would give.

    Rank 0 writes to this process's output; what another wrote is shown only if it failed before rank 0 did: what rank 0
    says then only follows from it. The ranks end with this process, even where SIGKILL ends it. For the main thread.

    Args:
        start: what starts a rank in place of running `command`.

    Returns:
        0, or the exit code of the first rank that failed, 128 + the signal's number where one ended it; the others are
        then ended.
    """
    # A launcher that is asked to end must end its ranks, which the `finally` below does.
    before = signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    with tempfile.TemporaryDirectory() as folder:
        ranks = []
        for rank in range(num_ranks):
            environment = os.environ | {
                "RANK": str(rank),
                "LOCAL_RANK": str(rank),
                "WORLD_SIZE": str(num_ranks),
                "LOCAL_WORLD_SIZE": str(num_ranks),
                "MASTER_ADDR": "127.0.0.1",
                "MASTER_PORT": str(store.port),
                "TORCHELASTIC_USE_AGENT_STORE": "True",
                lost.NOTES: folder,
            }
            environment.setdefault("OMP_NUM_THREADS", "1")
            output = None if rank == 0 else open(os.path.join(folder, str(rank)), "w+b")  # noqa: SIM115
            ranks.append(((start or _starter(command))(environment, output), output))
        try:
            return _wait(ranks, folder)
        finally:
            for process, output in ranks:
                if process.poll() is None:
                    process.kill()
                    process.wait()
                if output is not None:
                    output.close()
            signal.signal(signal.SIGTERM, before)


def _starter(command: list[str]) -> Start:
    tied = [sys.executable, "-I", "-S", "-c", _ENDS_WITH_ITS_PARENT, str(os.getpid()), sys.executable, *command]
    return lambda environment, output: subprocess.Popen(tied, env=environment, stdout=output, stderr=output)


def _noted(folder: str) -> tuple[int, str] | None:
    """The lowest rank that lost another one, and what it was at."""
    for path in sorted(Path(folder).glob("lost_*"), key=lambda path: int(path.name[5:])):
        return int(path.name[5:]), path.read_text()
    return None


def _wait(ranks: list, folder: str) -> int:
    while True:
        codes = [process.poll() for process, _ in ranks]
        if any(codes):
            break
        if all(code == 0 for code in codes):
            return 0
        time.sleep(0.05)
    first = next(rank for rank, code in enumerate(codes) if code)
    time.sleep(_GRACE_SECONDS)  # others may be about to say the same
    if first:
        _, output = ranks[first]
        output.seek(0)
        sys.stderr.write(output.read().decode(errors="replace"))
    code = codes[first]
    noted = _noted(folder)
    if code < 0:
        why = ", as the system does where memory runs out" if code == -signal.SIGKILL else ""
        seen = f"; rank {noted[0]} noticed {noted[1]}. What was saved is kept: start again" if noted else ""
        sys.stderr.write(f"rank {first} was ended by {signal.Signals(-code).name}{why}{seen}\n")
    elif noted and noted[0] == first:  # no rank has ended, or it said nothing: a collective timed out
        sys.stderr.write(f"rank {first} waited in vain for another {noted[1]}. What was saved is kept: start again\n")
    sys.stderr.flush()
    return code if code > 0 else 128 - code
