"""The whole loop on the demo's base model: the reward rises, and a run killed on the way ends as if it never was."""

import json
import shutil
import time
from pathlib import Path

import pytest

from pivotrl.policy import checkpoint_checksums
from tests.launch import kill, launch, start

pytestmark = pytest.mark.slow

STEPS = 16
WORKER = Path(__file__).parent / "train_ranks.py"
CLOCKS = ("seconds", "per_second", "refit_seconds")


def overrides(files: Path) -> list[str]:
    return [
        f"trajectories.files=[{files}]",
        "trajectories.heldout_share=0",
        f"training.steps={STEPS}",
        "checkpoint.every=4",
        "telemetry.tensorboard=false",
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
    profiled_by(run / "pivots" / "summary.json", ["verifier"], {"name": "exact", "preset": None, "params": {}})
    trained_with = run / "checkpoints" / "step_000004" / "run.json"
    profiled_by(trained_with, ["config", "verifier", "params"], {"message": "any"})
    entries = checkpoint_checksums.read_manifest(trained_with.parent)
    entries["run.json"] = checkpoint_checksums.settle(trained_with)
    checkpoint_checksums.write_manifest(trained_with.parent, entries)
    said = launch(2, WORKER, str(run), *settings, timeout=400)
    assert rows(run) == rows(straight[1])
    assert said.count("were profiled with another verifier than the run's: verifier.name was 'exact', is ") == 1
    assert said.count("verifier.params was {'message': 'any'}, is {}") == 1


def profiled_by(path: Path, keys: list[str], value: dict) -> None:
    """Let a run's file say that it was made with another verifier."""
    tree = inner = json.loads(path.read_text())
    for key in keys[:-1]:
        inner = inner[key]
    inner[keys[-1]] = value
    path.write_text(json.dumps(tree))
