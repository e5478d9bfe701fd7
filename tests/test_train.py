"""The whole loop on the demo's base model: the reward rises, and a run killed on the way ends as if it never was."""

import json
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from pivotrl.policy import checkpoint_checksums
from tests.launch import REPOSITORY, kill, launch, start

pytestmark = pytest.mark.slow

STEPS, PIVOTS = 16, 16
WORKER = Path(__file__).parent / "train_ranks.py"
CLOCKS = ("seconds", "per_second", "refit_seconds")


def overrides(files: Path) -> list[str]:
    return [
        f"trajectories.files=[{files}]",
        "trajectories.heldout_share=0",
        f"training.steps={STEPS}",
        "checkpoint.every=4",
        "telemetry.tensorboard=false",
        f"training.pivots_per_step={PIVOTS}",
    ]


def rows(run: Path) -> list[dict]:
    """The run's metrics without what a clock decides."""
    lines = (run / "metrics.jsonl").read_text().splitlines()
    return [
        {key: value for key, value in json.loads(line).items() if not any(word in key for word in CLOCKS)}
        for line in lines
    ]


@pytest.fixture(scope="module")
def straight(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The trajectories, and the folder of a run that nothing disturbed."""
    from pivotrl.demo.trajectories import write

    folder = tmp_path_factory.mktemp("train")
    files = folder / "trajectories.jsonl"
    write(files, 16, "train")
    launch(2, WORKER, str(folder / "straight"), *overrides(files), timeout=400)
    return files, folder / "straight"


def test_reward_rises_and_the_engine_is_the_policy(straight: tuple[Path, Path]) -> None:
    metrics = rows(straight[1])
    assert [row["step"] for row in metrics] == list(range(STEPS))
    first, last = (sum(row["reward"] for row in part) / 4 for part in (metrics[:4], metrics[-4:]))
    assert last > first + 0.1, (first, last)
    assert max(row["canary_error"] for row in metrics) < 1e-3, "the engine's log-probs are the trainer's"
    assert max(row["gap"] for row in metrics) < 1e-3, "and so they are on what was sampled"
    assert all(abs(row["ratio"] - 1) < 1e-6 for row in metrics), "one update per batch is on-policy"
    trace = json.loads((straight[1] / "trace.json").read_text())
    steps = {one["args"]["step"] for one in trace if one["ph"] == "X" and one["pid"] == 0}
    assert steps == set(range(1, STEPS + 1))
    assert json.loads((straight[1] / "heartbeat.json").read_text())["phase"] == "finished"
    assert not (straight[1] / "health.jsonl").exists(), (straight[1] / "health.jsonl").read_text()
    for row in metrics:
        shares = {key.removeprefix("reason."): value for key, value in row.items() if key.startswith("reason.")}
        assert abs(sum(shares.values()) - 1) < 1e-9
        assert abs(sum(share * row[f"reward.{name}"] for name, share in shares.items()) - row["reward"]) < 1e-9


def test_a_killed_run_ends_with_the_same_losses(straight: tuple[Path, Path], tmp_path: Path) -> None:
    files, run = straight[0], tmp_path / "killed"
    shutil.copytree(straight[1] / "pivots", run / "pivots")
    settings = [*overrides(files), "training.offload=true"]  # which changes memory only
    process = start(2, WORKER, str(run), *settings)
    metrics, deadline = run / "metrics.jsonl", time.monotonic() + 300
    while not (metrics.exists() and metrics.read_bytes().count(b"\n") >= 6):
        assert process.poll() is None, "the run ended before it could be killed"
        assert time.monotonic() < deadline, "the run did not reach its sixth step"
        time.sleep(0.02)
    kill(process)
    assert (run / "checkpoints" / "latest").read_text() == "step_000004"
    assert sorted(path.name for path in (run / "bank").iterdir())[:2] == ["step_000004", "step_000005"]
    banked = tear_half(run / "bank" / "step_000005")
    assert 0 < banked < PIVOTS
    profiled_by(run / "pivots" / "summary.json", ["verifier"], {"name": "exact", "preset": None, "params": {}})
    trained_with = run / "checkpoints" / "step_000004" / "run.json"
    profiled_by(trained_with, ["config", "verifier", "params"], {"message": "any"})
    entries = checkpoint_checksums.read_manifest(trained_with.parent)
    entries["run.json"] = checkpoint_checksums.settle(trained_with)
    checkpoint_checksums.write_manifest(trained_with.parent, entries)
    said = launch(2, WORKER, str(run), *settings, timeout=400)
    assert rows(run) == rows(straight[1]), "what the bank gave and what was sampled beside it are what they would be"
    assert f"step 5: {PIVOTS} of {PIVOTS} groups come from the bank" in said
    assert f"step 6: {banked} of {PIVOTS} groups come from the bank" in said
    assert not any((run / "bank").iterdir()), "a checkpoint holds all steps"
    assert said.count("were profiled with another verifier than the run's: verifier.name was 'exact', is ") == 1
    assert said.count("verifier.params was {'message': 'any'}, is {}") == 1


def test_a_gate_that_stops_saves_first_and_a_new_start_goes_on(straight: tuple[Path, Path], tmp_path: Path) -> None:
    files, run = straight[0], tmp_path / "stopped"
    shutil.copytree(straight[1] / "pivots", run / "pivots")
    stop = ["health.entropy={action: stop, below: 100, patience: 2}", "training.steps=4"]
    command = [sys.executable, "-m", "pivotrl.train", "--ranks", "2", "--config", "configs/demo_cpu.yaml"]
    words = [*command, f"output={run}", *overrides(files), *stop]
    done = subprocess.run(words, cwd=REPOSITORY, capture_output=True, text=True, timeout=400)
    assert done.returncode == 3, done.stderr
    (line,) = [line for line in done.stderr.splitlines() if "health" in line]
    assert line.startswith("pivotrl.train: health.entropy: the entropy is ") and "below 100" in line
    assert "at step 2, since step 1; " in line and "saved after step 2" in line
    assert (run / "checkpoints" / "latest").read_text() == "step_000002"
    (event,) = [json.loads(line) for line in (run / "health.jsonl").read_text().splitlines()]
    assert (event["step"], event["since"], event["action"]) == (1, 0, "stop")
    assert json.loads((run / "heartbeat.json").read_text())["phase"] == "ended by HealthStop"
    launch(2, WORKER, str(run), *overrides(files), "training.steps=4", timeout=400)
    assert rows(run) == rows(straight[1])[:4]


def tear_half(step: Path) -> int:
    """Leave of each rank's groups the first half, and the next one torn. Returns how many are whole."""
    whole = 0
    for path in step.glob("rank_*.jsonl"):
        lines = path.read_bytes().splitlines(keepends=True)
        half = len(lines) // 2
        path.write_bytes(b"".join([*lines[:half], lines[half][:-9]]))
        whole += half
    return whole


def profiled_by(path: Path, keys: list[str], value: dict) -> None:
    """Let a run's file say that it was made with another verifier."""
    tree = inner = json.loads(path.read_text())
    for key in keys[:-1]:
        inner = inner[key]
    inner[keys[-1]] = value
    path.write_text(json.dumps(tree))
