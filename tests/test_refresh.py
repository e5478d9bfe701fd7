"""Fresh pivots in the training loop, on the demo's base model: they are profiled anew on the way, a resumed run ends
with the same bits, and without them nothing of a run is another."""

import json
from pathlib import Path
from types import SimpleNamespace

import pytest

from pivotrl import refresh
from pivotrl.config import parse_config
from tests.launch import launch

STEPS = 8
CLOCKS = ("seconds", "per_second", "refit_seconds")


def rows(run: Path) -> list[dict]:
    lines = (run / "metrics.jsonl").read_text().splitlines()
    return [
        {key: value for key, value in json.loads(line).items() if not any(word in key for word in CLOCKS)}
        for line in lines
    ]


@pytest.mark.slow
def test_a_resumed_run_ends_with_the_same_bits(tmp_path: Path) -> None:
    from pivotrl.demo.trajectories import write

    files = tmp_path / "trajectories.jsonl"
    write(files, 16, "train")
    settings = {
        "trajectories.files": f"[{files}]",
        "trajectories.heldout_share": 0,
        "pivots.limit": 48,
        "training.steps": STEPS,
        "training.pivots_per_step": 8,
        "training.group_size": 4,
        "checkpoint.every": 5,
        "telemetry.tensorboard": "false",
        "fresh.enabled": "true",
        "fresh.every": 2,
        "fresh.turns": 6,
        "fresh.memory": 0.8,
    }
    worker = Path(__file__).parent / "fresh_ranks.py"
    said = launch(2, worker, str(tmp_path), *(f"{key}={value}" for key, value in settings.items()), timeout=500)
    straight, resumed = rows(tmp_path / "straight"), rows(tmp_path / "resumed")
    assert [row["step"] for row in straight] == list(range(STEPS))
    assert resumed == straight
    last = f"checkpoints/step_{STEPS:06d}/sampler.npz"
    assert (tmp_path / "resumed" / last).read_bytes() == (tmp_path / "straight" / last).read_bytes()
    assert "with other pivots than it was trained with" not in said, "the state was there before the batch was compared"
    profiled = [row["reprofiled_turns"] for row in straight]
    assert profiled[:2] == [0, 0] and profiled[2] == 6 and profiled[-1] >= 18, profiled
    assert all(
        2 * row["reprofiled_turns"] <= row["profiling_samples"] <= 4 * row["reprofiled_turns"] for row in straight
    )


def test_off_is_the_static_sampler_and_adds_nothing() -> None:
    config = parse_config({"output": "unused", "model": {"path": "unused"}}, "test")
    static = SimpleNamespace(rounds=1)
    session = SimpleNamespace(config=config)
    assert not config.fresh.enabled and refresh.sampler_of(session, static) is static
    assert refresh.before_step(session, static, 3, None) is None
    assert refresh.after_step(static, 3, []) == {} and refresh.carried(static) is None
