"""Weights & Biases for real, without a network: what an attempt wrote offline is read back from wandb's own file.

wandb 0.31 has no reader in Python any more. The file is a 7-byte header and LevelDB's log format (blocks of 32 KiB of
records with CRC, length and type) around wandb's protobuf records.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from importlib.machinery import ModuleSpec
from pathlib import Path

import pytest

from pivotrl.telemetry.config import TelemetryConfig
from pivotrl.telemetry.metrics import MetricsWriter
from tests.launch import REPOSITORY

CONFIG = TelemetryConfig(tensorboard=False, wandb_project="pivots")
BLOCK, HEADER = 32768, 7
FULL, FIRST, _MIDDLE, LAST = 1, 2, 3, 4
ATTEMPT = """
import os, signal, sys
from pivotrl.telemetry.config import TelemetryConfig
from pivotrl.telemetry.metrics import MetricsWriter

folder, start, end, killed = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4] == "killed"
config = TelemetryConfig(tensorboard=False, wandb_project="pivots")
with MetricsWriter(folder, config, start=start) as writer:
    for step in range(start, end):
        writer.write(step, {"reward": step / 10, "kl": float("nan"), "reason.format": 0.125}, {"train": 2.0})
    if killed:
        os.kill(os.getpid(), signal.SIGKILL)
"""


def attempt(run: Path, start: int, end: int, how: str = "", mode: str = "offline") -> subprocess.CompletedProcess:
    """One attempt of a run, as a process of its own; nobody is logged in."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith("WANDB_") and key != "NETRC"}
    environment = kept | {"WANDB_MODE": mode, "PYTHONPATH": str(REPOSITORY), "HOME": str(run.parent)}
    words = [sys.executable, "-c", ATTEMPT, str(run), str(start), str(end), how]
    return subprocess.run(words, env=environment, capture_output=True, text=True, timeout=120, cwd=run.parent)


def payloads(path: Path) -> Iterator[bytes]:
    data, place, whole = path.read_bytes(), HEADER, b""
    assert data[:4] == b":W&B"
    while place + HEADER <= len(data):
        if BLOCK - place % BLOCK < HEADER:
            place += BLOCK - place % BLOCK
            continue
        length, kind = int.from_bytes(data[place + 4 : place + 6], "little"), data[place + 6]
        whole += data[place + HEADER : place + HEADER + length]
        place += HEADER + length
        if kind in (FULL, LAST):
            yield whole
            whole = b""


def read_back(path: Path) -> tuple[list[tuple[str, str, str]], list[dict]]:
    """Id, project and name of the runs in an offline file, and the rows that were logged."""
    from wandb.proto import wandb_internal_pb2

    runs, rows = [], []
    for payload in payloads(path):
        record = wandb_internal_pb2.Record.FromString(payload)
        if record.HasField("run"):
            runs.append((record.run.run_id, record.run.project, record.run.display_name))
        if record.HasField("history"):
            row = {item.key or ".".join(item.nested_key): item.value_json for item in record.history.item}
            named = {name: float(value) for name, value in row.items() if not name.startswith("_")}
            rows.append({"step": record.history.step.num} | named)
    return runs, rows


def test_a_run_that_was_killed_goes_on_under_its_id_and_its_last_folder_holds_all_of_it(tmp_path: Path) -> None:
    run = tmp_path / "run"
    assert attempt(run, 0, 4, "killed").returncode == -signal.SIGKILL
    name = (run / "wandb_run_id").read_text()
    done = attempt(run, 2, 5)  # the newest checkpoint was made after step 2
    assert done.returncode == 0, done.stderr
    first, last = sorted((run / "wandb").glob("offline-run-*/run-*.wandb"), key=lambda path: path.stat().st_mtime)
    assert first.name == last.name == f"run-{name}.wandb" and len(name) == 12
    runs, rows = read_back(last)
    assert set(runs) == {(name, "pivots", "run")}
    same = {"reason.format": 0.125, "seconds.train": 2.0}
    assert rows == [{"step": step, "reward": step / 10} | same for step in range(5)], "a NaN is left out"


def test_nobody_logged_in_is_one_line_with_the_remedy(tmp_path: Path) -> None:
    done = attempt(tmp_path / "run", 0, 1, mode="online")
    assert done.returncode == 1
    (line,) = [line for line in done.stderr.splitlines() if line.startswith("ValueError: ")]
    assert "telemetry.wandb_project is 'pivots', and wandb says: No API key" in line
    assert "WANDB_MODE=offline" in line and "During handling" not in done.stderr


def test_wandb_that_is_not_installed_is_said_with_the_remedy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for spec in (None, ModuleSpec("wandb", None)):  # the second is wandb's own log folder ./wandb, seen by Python
        monkeypatch.setattr("importlib.util.find_spec", lambda name, spec=spec: spec)
        with pytest.raises(ValueError, match="pip install wandb"):
            MetricsWriter(tmp_path / "run", CONFIG)
        MetricsWriter(tmp_path / "run", CONFIG, rank=1).close()
