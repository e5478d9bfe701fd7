"""Start several ranks of a script under torchrun, with a time-out, and end exactly the processes that were started."""

import os
import subprocess
import sys
from pathlib import Path

import psutil

REPOSITORY = Path(__file__).resolve().parents[1]


def launch(
    num_ranks: int, script: str | Path, *args: str, timeout: float = 120, env: dict[str, str] | None = None
) -> str:
    """Run `script args...` on `num_ranks` ranks, one thread each, and return what they printed.

    Torchrun's `--standalone` picks a free port.

    Raises:
        AssertionError: the ranks exited non-zero or ran past `timeout` seconds; the message ends with their output.
    """
    process = start(num_ranks, script, *args, env=env, stdout=subprocess.PIPE)
    try:
        output, _ = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        kill(process)
        output, _ = process.communicate()
        raise AssertionError(f"{script} ran past {timeout} s; its output:\n{output[-8000:]}") from None
    assert process.returncode == 0, f"{script} exited with {process.returncode}; its output:\n{output[-8000:]}"
    return output


def start(
    num_ranks: int, script: str | Path, *args: str, env: dict[str, str] | None = None, stdout: int = subprocess.DEVNULL
) -> subprocess.Popen:
    """Start the ranks and return the launcher's process; the caller waits for it, or calls `kill`."""
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(num_ranks)]
    quiet = {
        "OMP_NUM_THREADS": "1",
        "PYTHONPATH": str(REPOSITORY),
        "TOKENIZERS_PARALLELISM": "false",
    }
    return subprocess.Popen(
        [*command, str(script), *args],
        cwd=REPOSITORY,
        env=os.environ | quiet | (env or {}),
        stdout=stdout,
        stderr=subprocess.STDOUT if stdout == subprocess.PIPE else subprocess.DEVNULL,
        text=True,
    )


def kill(process: subprocess.Popen) -> None:
    """End a launcher and its ranks, which are leaders of sessions of their own, by their pids and without a warning."""
    family = [psutil.Process(process.pid), *psutil.Process(process.pid).children(recursive=True)]
    for member in family:
        if member.is_running():
            member.kill()
    psutil.wait_procs(family[1:], timeout=30)
    process.wait()
