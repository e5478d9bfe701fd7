"""Jobs under a Slurm that is four small programs (bin/): real batch scripts, real processes, two nodes on loopback."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
BIN = Path(__file__).parent / "bin"


class Job:
    """One submitted job, which may run in several attempts."""

    def __init__(self, folder: Path, script: str, *arguments: str, env: dict[str, str] | None = None) -> None:
        """
        Args:
            folder: of the fake Slurm's files.
            script: the batch script's name in slurm/.
            env: added to the job's environment.
        """
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        variables = {
            "PATH": f"{BIN}{os.pathsep}{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "FAKE_SLURM": str(folder),
            "PYTHON": sys.executable,
            "GPUS_PER_NODE": "1",
            "PIVOTRL_DEVICE": "cpu",
            "OMP_NUM_THREADS": "1",
            "PREFLIGHT_NODE_GBPS": "0",
            "PREFLIGHT_LINK_GBPS": "0",
            "PREFLIGHT_OUTPUT_GIB": "0",
            "PREFLIGHT_TMP_GIB": "0",
            "PREFLIGHT_SHM_GIB": "0",
        }
        self.process = subprocess.Popen(
            ["sbatch", f"slurm/{script}", *arguments],
            cwd=REPOSITORY,
            env=os.environ | variables | (env or {}),
            executable=str(BIN / "sbatch"),
        )

    @property
    def output(self) -> str:
        """What Slurm's log of the job holds."""
        file = self.folder / "job.out"
        return file.read_text(errors="replace") if file.exists() else ""

    def signal(self) -> None:
        """What `--signal=B:USR1@300` does 300 seconds before the end: the batch script alone is told."""
        os.kill(int((self.folder / "job.pid").read_text()), signal.SIGUSR1)

    def wait_until(self, condition: Callable[[], bool], timeout: float) -> None:
        deadline = time.monotonic() + timeout
        while not condition():
            assert self.process.poll() is None, f"the job ended first:\n{self.output[-6000:]}"
            assert time.monotonic() < deadline, f"not within {timeout} s:\n{self.output[-6000:]}"
            time.sleep(0.1)

    def wait(self, timeout: float) -> int:
        """The exit code of the last attempt."""
        try:
            return self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            self.end()
            raise AssertionError(f"not within {timeout} s:\n{self.output[-6000:]}") from None

    def end(self) -> None:
        """Kill whatever of it still runs, by pid."""
        import psutil

        if self.process.poll() is None:
            family = psutil.Process(self.process.pid).children(recursive=True)
            self.process.kill()
            for member in family:
                if member.is_running():
                    member.kill()
            self.process.wait()

    def __enter__(self) -> "Job":
        return self

    def __exit__(self, *_: object) -> None:
        self.end()
