"""Runs killed at random moments end as if they never were. For more kills: tests/policy/kills.py."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.launch import REPOSITORY
from tests.policy.tiny import build

pytestmark = pytest.mark.slow


def test_killed_runs_end_as_a_run_left_alone(tmp_path: Path) -> None:
    build("moe").save_pretrained(tmp_path / "model")
    command = [sys.executable, "tests/policy/kills.py", "--model", tmp_path / "model", "--folder", tmp_path]
    done = subprocess.run(
        [
            *command,
            "--kills",
            os.environ.get("PIVOTRL_KILLS", "5"),
            "--seed",
            os.environ.get("PIVOTRL_KILLS_SEED", "3"),
        ],
        cwd=REPOSITORY,
        env=os.environ | {"PYTHONPATH": str(REPOSITORY), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=1200,
    )
    log = tmp_path / "ranks.log"
    said = done.stdout + done.stderr[-6000:] + (log.read_text()[-6000:] if log.exists() else "")
    assert done.returncode == 0 and "EQUAL ENDS" in done.stdout, said
