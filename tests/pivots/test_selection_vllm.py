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
TURNS = 96
COUNTS = ("samples", "prompt_tokens", "sampled_tokens")


@pytest.fixture(scope="module")
def arguments(tmp_path_factory):
    folder = tmp_path_factory.mktemp("selection")
    trajectories.write(folder / "desk.jsonl", 30, 1)
    tree = {
        "output": str(folder / "run"),
        "model": {"path": str(BASE), "dtype": "float32"},
        "trajectories": {"files": [str(folder / "desk.jsonl")], "heldout_share": 0.2},
        "pivots": {"samples": 8, "profiling": "thorough", "chunk": 16, "limit": TURNS, "max_mean": 0.9},
        "rollout": {"max_model_len": 1024, "max_new_tokens": 64, "kv_cache_gib": 0.25},
    }
    (folder / "run.yaml").write_text(yaml.safe_dump(tree))
    return ["--config", str(folder / "run.yaml")]


def lines_in(folder: Path) -> int:
    return sum(file.read_bytes().count(b'"profile":') for file in (folder / "progress").glob("engine_*"))


def kill_after(folder: Path, turns: int, command: list[str]) -> None:
    """Start the command and send SIGKILL once that many turns are in its log."""
    process = subprocess.Popen(command, env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    deadline = time.monotonic() + 400
    while lines_in(folder) < turns and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    output, _ = process.communicate()
    assert process.returncode == -signal.SIGKILL, output.decode()[-4000:]


@pytest.mark.slow
def test_killed_and_continued_on_two_ranks_gives_the_bytes_of_one_uninterrupted_run(arguments, tmp_path):
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    kill_after(killed, 20, [sys.executable, str(SCRIPT), *arguments, "--out", str(killed)])
    assert 20 <= lines_in(killed) < TURNS and not (killed / "summary.json").exists()
    launch(2, SCRIPT, *arguments, "--out", str(killed), timeout=500)
    subprocess.run(
        [sys.executable, str(SCRIPT), *arguments, "--out", str(whole)], env=ENVIRONMENT, check=True, timeout=500
    )
    assert bytes_of(whole) == bytes_of(killed)
    found = [json.loads((folder / "summary.json").read_text()) for folder in (whole, killed)]
    costs = [summary.pop("cost") for summary in found]
    assert found[0] == found[1]
    assert found[0]["candidates"] == TURNS and found[0]["pivots"] > 0
    assert found[0]["mixed"] >= found[0]["candidates"] / 5, "the base model is half-good by design"
    for cost in costs:
        assert cost["seconds"] > 0 and cost["gpu_hours"] > 0
        assert 2 * TURNS < cost["samples"] < 8 * TURNS, "drawn in rounds: some turns are settled before 8 samples"
        assert [cost[key] for key in COUNTS] == [costs[0][key] for key in COUNTS]
