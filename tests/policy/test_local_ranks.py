"""What a user is told when ranks of a command end: by which rank, and of what."""

import fcntl
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from pivotrl.policy import local_ranks
from tests.launch import REPOSITORY

FOLLOWS = "time.sleep(0.3), print('rank 0: connection lost', file=sys.stderr), sys.exit(1)"
COMMAND = """
import fcntl, os, sys, time
from pathlib import Path
from pivotrl.command import run_command
def work():
    if len(sys.argv) == 2:
        open("no folder/file")
    lock = open(Path(sys.argv[1], os.environ["RANK"] + ".lock"), "w")
    fcntl.flock(lock, fcntl.LOCK_EX)
    Path(sys.argv[1], os.environ["RANK"]).touch()
    time.sleep(60)
sys.exit(run_command("command", [__file__], 2 if len(sys.argv) == 3 else 1, work))
"""


@pytest.mark.parametrize(
    ("first", "code", "said"),
    [
        ("print('rank 1: no such pivot', file=sys.stderr), sys.exit(2)", 2, "rank 1: no such pivot\n"),
        ("os.kill(os.getpid(), 9)", 137, "rank 1 was ended by SIGKILL, as the system does where memory runs out\n"),
        ("os.kill(os.getpid(), 15)", 143, "rank 1 was ended by SIGTERM\n"),
    ],
)
def test_the_rank_that_failed_first_is_heard_though_rank_0_failed_after_it(
    tmp_path: Path,
    capfd: pytest.CaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    first: str,
    code: int,
    said: str,
) -> None:
    monkeypatch.setattr(local_ranks, "_GRACE_SECONDS", 1.5)
    script = tmp_path / "script.py"
    script.write_text(f"import os, sys, time\n({first}) if os.environ['RANK'] == '1' else ({FOLLOWS})\n")
    assert local_ranks.run_ranks(2, [str(script)]) == code
    assert capfd.readouterr().err == f"rank 0: connection lost\n{said}"


def test_rank_0_ended_by_a_signal(tmp_path: Path, capfd: pytest.CaptureFixture) -> None:
    script = tmp_path / "script.py"
    script.write_text("import os, time\nos.kill(os.getpid(), 11) if os.environ['RANK'] == '0' else time.sleep(60)\n")
    assert local_ranks.run_ranks(2, [str(script)]) == 139
    assert capfd.readouterr().err == "rank 0 was ended by SIGSEGV\n"


def start(tmp_path: Path, *arguments: str) -> subprocess.Popen:
    script = tmp_path / "command.py"
    script.write_text(COMMAND)
    return subprocess.Popen(
        [sys.executable, str(script), *arguments],
        env=os.environ | {"PYTHONPATH": str(REPOSITORY)},
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def start_two(tmp_path: Path) -> subprocess.Popen:
    """Two ranks, each at work and with the lock of a file."""
    process, deadline = start(tmp_path, str(tmp_path), "two ranks"), time.monotonic() + 60
    while not all((tmp_path / str(rank)).exists() for rank in range(2)):
        assert process.poll() is None and time.monotonic() < deadline
        time.sleep(0.05)
    return process


def locked(path: Path) -> bool:
    with path.open() as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def test_the_ranks_end_with_the_process_that_started_them(tmp_path: Path) -> None:
    process, locks = start_two(tmp_path), [tmp_path / f"{rank}.lock" for rank in range(2)]
    assert all(map(locked, locks))
    process.kill()
    process.communicate(timeout=30)  # at the end of what rank 0 writes
    deadline = time.monotonic() + 20
    while any(map(locked, locks)):
        assert time.monotonic() < deadline, "a rank is still at work"
        time.sleep(0.05)


def test_ctrl_c_is_one_line(tmp_path: Path) -> None:
    process = start_two(tmp_path)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does
    _, said = process.communicate(timeout=60)
    assert (process.returncode, said) == (130, "command: interrupted\n")


def test_a_file_that_cannot_be_opened_is_one_line(tmp_path: Path) -> None:
    _, said = start(tmp_path, str(tmp_path)).communicate(timeout=60)
    assert said == "command: no folder/file: No such file or directory\n"
