"""Who is in memory when: the order of sleeping and waking over real steps, with a real engine and a fake allocator."""

import json
from pathlib import Path

import pytest

from tests.launch import launch

pytestmark = pytest.mark.slow

STEP = ["rollout", "update", "refit", "canary", "save", "refit", "canary"]
"""Every step is saved. The refit after it is of the same weights: the engine slept meanwhile."""
THERE = {
    "rollout": {"weights", "engine", "cache"},
    "update": {"weights", "gradients", "optimizer"},
    "save": {"weights", "gradients", "optimizer"},
    "refit": {"weights", "engine"},
    "canary": {"weights", "engine", "cache"},
}
"""The table of pivotrl/handover.py, with `training.offload` and `rollout.sleep`."""


def test_the_device_is_handed_over_in_an_order_that_holds_nothing_twice(tmp_path: Path) -> None:
    said = launch(1, Path(__file__).parent / "handover_ranks.py", str(tmp_path), timeout=400)
    (line,) = [line for line in said.splitlines() if line.startswith("HELD ")]
    seen: list[tuple[str, dict[str, int]]] = json.loads(line.removeprefix("HELD "))
    assert [name for name, _ in seen] == [*STEP, *STEP]
    whole = seen[0][1]
    for number, (name, held) in enumerate(seen):
        there = {part for part, size in held.items() if size}
        first = number == STEP.index("update")  # Adam's moments come with it
        assert there == THERE[name] - ({"optimizer"} if first else set()), (number, name, held)
        assert all(held[part] in (0, whole[part]) for part in ("engine", "cache", "weights")), "one copy, or none"
