"""Only one training writes into a folder, and a dead one does not keep it."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from pivotrl.policy.checkpoint_lock import FolderLock, refuse_if_held

HOLD = """
import os, sys, time
from pathlib import Path
from pivotrl.policy.checkpoint_lock import FolderLock
lock = FolderLock(Path(sys.argv[1]))
worker = os.fork()  # as pools of verifiers do: it must not keep the lock when the run is killed
if worker:
    print(worker, flush=True)
time.sleep(60)
"""


def test_the_holder_is_named_and_its_death_frees_the_folder(tmp_path: Path) -> None:
    folder = tmp_path / "run" / "checkpoints"
    refuse_if_held(folder)
    assert not folder.exists()
    process = subprocess.Popen([sys.executable, "-c", HOLD, str(folder)], stdout=subprocess.PIPE, text=True)
    worker = int(process.stdout.readline())
    try:
        for attempt in (FolderLock, refuse_if_held):
            with pytest.raises(ValueError, match=f"run: another training writes there .process {process.pid} on "):
                attempt(folder)
    finally:
        process.kill()
        process.wait()
    refuse_if_held(folder)
    lock = FolderLock(folder)
    os.kill(worker, signal.SIGKILL)
    assert json.loads((folder / "lock").read_text())["pid"] == os.getpid()
    lock.release()
    FolderLock(folder).release()


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ValueError, match=r"file.*: Not a directory; choose another output folder"):
        FolderLock(tmp_path / "file" / "checkpoints")
