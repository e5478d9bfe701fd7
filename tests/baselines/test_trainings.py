"""Both baselines on the demo's base model: they learn, resume to the same bits, and follow one another in a session."""

import json
import shutil
from pathlib import Path

import pytest

from tests.launch import launch

pytestmark = pytest.mark.slow

WORKER = Path(__file__).parent / "session_ranks.py"
CLOCKS = ("seconds", "per_second")
SFT_STEPS, RL_STEPS, TASKS, EPISODES = 6, 2, 3, 4
SFT = [f"training.steps={SFT_STEPS}", "sft.trajectories_per_step=8", "checkpoint.every=2", "checkpoint.keep=3"]
RL = [f"training.steps={RL_STEPS}", f"training.pivots_per_step={TASKS}", f"training.group_size={EPISODES}"]
RL += ["environment.tasks=12", "environment.max_turns=7", "checkpoint.every=1", "rollout.temperature=0.9"]


def job(kind: str, run: Path, files: Path, *overrides: str) -> dict:
    common = [f"output={run}", f"trajectories.files=[{files}]", "telemetry.tensorboard=false"]
    return {"kind": kind, "weights": f"{run}.weights", "overrides": [*common, *overrides]}


def rows(run: Path) -> list[dict]:
    """The run's metrics without what a clock decides."""
    lines = (run / "metrics.jsonl").read_text().splitlines()
    return [
        {key: value for key, value in json.loads(line).items() if not any(word in key for word in CLOCKS)}
        for line in lines
    ]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`sft` and `rl`, one after the other in one session; then `rl_again` and `resumed` in another, where the latter
    goes on from what a run like `sft` that was killed in its fifth step leaves behind."""
    from pivotrl.demo.trajectories import write

    folder = tmp_path_factory.mktemp("baselines")
    files = folder / "t.jsonl"
    write(files, 24, "train")
    first = [job("sft", folder / "sft", files, *SFT), job("end_to_end", folder / "rl", files, *RL)]
    launch(2, WORKER, "configs/demo_cpu.yaml", json.dumps(first), timeout=500)
    resumed = folder / "resumed"
    shutil.copytree(folder / "sft", resumed)
    shutil.rmtree(resumed / "checkpoints" / "step_000006")
    (resumed / "checkpoints" / "latest").write_text("step_000004")
    lines = (resumed / "metrics.jsonl").read_bytes().splitlines(keepends=True)
    (resumed / "metrics.jsonl").write_bytes(b"".join(lines[:5]) + lines[5][:9])
    second = [job("end_to_end", folder / "rl_again", files, *RL), job("sft", resumed, files, *SFT)]
    launch(2, WORKER, "configs/demo_cpu.yaml", json.dumps(second), timeout=500)
    return folder


def test_sft_learns_and_rolls_nothing_out(runs: Path) -> None:
    metrics = rows(runs / "sft")
    assert [row["step"] for row in metrics] == list(range(SFT_STEPS))
    losses = [row["cross_entropy"] for row in metrics]
    assert max(losses[-2:]) < 0.8 * min(losses[:2]), losses
    assert all(row["loss"] == row["cross_entropy"] and row["rollout_turns"] == 0 for row in metrics)
    assert all(row["samples"] == 8 for row in metrics), "a trajectory is one row"


def test_end_to_end_counts_its_turns_and_trains_on_policy(runs: Path) -> None:
    metrics = rows(runs / "rl")
    assert [row["step"] for row in metrics] == list(range(RL_STEPS))
    assert [row["rollout_turns"] for row in metrics] == [
        sum(row["samples"] for row in metrics[: step + 1]) for step in range(RL_STEPS)
    ]
    for row in metrics:
        assert row["episodes"] == TASKS * EPISODES
        assert row["episodes"] < row["samples"] == row["turns_per_episode"] * row["episodes"] <= 7 * row["episodes"]
        assert abs(row["ratio"] - 1) < 1e-6, "one update per batch is on-policy"
        assert row["canary_error"] < 1e-3, "the engine's log-probs are the trainer's"
        assert 0 <= row["out_of_turns_share"] + row["out_of_context_share"] <= 1 - row["reward"]
    assert any(row["signal_share"] > 0 and row["grad_norm"] > 0 for row in metrics)


def test_a_training_in_a_session_is_the_one_of_its_own_processes(runs: Path) -> None:
    assert rows(runs / "rl_again") == rows(runs / "rl"), "first in its session here, second there"
    assert (runs / "rl_again.weights").read_text() == (runs / "rl.weights").read_text()
    assert (runs / "rl.weights").read_text() != (runs / "sft.weights").read_text()


def test_a_killed_sft_ends_with_the_same_bits(runs: Path) -> None:
    assert rows(runs / "resumed") == rows(runs / "sft")
    assert (runs / "resumed.weights").read_text() == (runs / "sft.weights").read_text()
