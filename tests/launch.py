"""Start several ranks of a script under torchrun, with a time-out, and end exactly the processes that were started."""

import os
import signal
import subprocess
import sys
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[1]


def launch(num_ranks: int, script: str | Path, *args: str, timeout: float = 120, env: dict[str, str] | None = None) -> str:
    """Run `script args...` on `num_ranks` ranks, one thread each, and return what they printed.

    Torchrun's `--standalone` picks a free port. On a time-out the whole process group of the launcher is killed.

    Raises:
        AssertionError: the ranks exited non-zero or ran past `timeout` seconds; the message ends with their output.
    """
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(num_ranks)]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(REPOSITORY), "TOKENIZERS_PARALLELISM": "false"}
    process = subprocess.Popen(
        [*command, str(script), *args],
        cwd=REPOSITORY,
        env=environment | (env or {}),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        output, _ = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        output, _ = process.communicate()
        raise AssertionError(f"{script} ran past {timeout} s; its output:\n{output[-8000:]}") from None
    assert process.returncode == 0, f"{script} exited with {process.returncode}; its output:\n{output[-8000:]}"
    return output
