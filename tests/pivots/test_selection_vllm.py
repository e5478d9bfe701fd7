"""The command on the real engine: killed by SIGKILL half-way, continued by another number of ranks, same bytes."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml

from pivotrl.demo import trajectories
from tests.launch import REPOSITORY, launch
from tests.pivots.fakes import bytes_of

BASE = REPOSITORY / "pivotrl" / "demo" / "base"
SCRIPT = REPOSITORY / "tools" / "select_pivots.py"
ENVIRONMENT = os.environ | {"OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}
CHUNKS = 6


@pytest.fixture(scope="module")
def arguments(tmp_path_factory):
    folder = tmp_path_factory.mktemp("selection")
    trajectories.write(folder / "desk.jsonl", 30, 1)
    tree = {
        "output": str(folder / "run"),
        "model": {"path": str(BASE), "dtype": "float32"},
        "trajectories": {"files": [str(folder / "desk.jsonl")], "heldout_share": 0.2},
        "pivots": {"samples": 8, "chunk": 16, "limit": 16 * CHUNKS, "max_mean": 0.9},
        "rollout": {"max_model_len": 1024, "max_new_tokens": 64, "kv_cache_gib": 0.25},
    }
    (folder / "run.yaml").write_text(yaml.safe_dump(tree))
    return ["--config", str(folder / "run.yaml")]


def chunks_in(folder: Path) -> int:
    log = folder / "progress.jsonl"
    return max(0, log.read_bytes().count(b"\n") - 1) if log.exists() else 0


def kill_after(folder: Path, chunks: int, command: list[str]) -> None:
    """Start the command and send SIGKILL once that many chunks are in its log."""
    process = subprocess.Popen(command, env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    deadline = time.monotonic() + 150
    while chunks_in(folder) < chunks and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    output, _ = process.communicate()
    assert process.returncode == -signal.SIGKILL, output.decode()[-4000:]


@pytest.mark.slow
def test_killed_and_continued_on_two_ranks_gives_the_bytes_of_one_uninterrupted_run(arguments, tmp_path):
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    kill_after(killed, 2, [sys.executable, str(SCRIPT), *arguments, "--out", str(killed)])
    assert 2 <= chunks_in(killed) < CHUNKS and not (killed / "summary.json").exists()
    launch(2, SCRIPT, *arguments, "--out", str(killed), timeout=240)
    subprocess.run(
        [sys.executable, str(SCRIPT), *arguments, "--out", str(whole)], env=ENVIRONMENT, check=True, timeout=240
    )
    assert bytes_of(whole) == bytes_of(killed)
    found = [json.loads((folder / "summary.json").read_text()) for folder in (whole, killed)]
    for summary in found:
        assert summary.pop("engine_seconds") > 0
    assert found[0] == found[1]
    assert found[0]["candidates"] == 16 * CHUNKS and found[0]["pivots"] > 0
    assert found[0]["mixed"] >= found[0]["candidates"] / 5, "the base model is half-good by design"
