"""`training.offload`: gradients and optimizer go while the engine samples, come back, and nothing else changes."""

import json
from pathlib import Path

from tests.launch import launch
from tests.policy.tiny import build

CASES = [
    {"parallel": {"tensor": 2, "expert": 2}},
    {"parallel": {"tensor": 2, "expert": 2}, "optimizer": {"distributed": False}},
    {"parallel": {}, "model": {"dtype": "float32"}},
    {"parallel": {"expert": 2}, "optimizer": {"offload": 0.5}},
]


def test_the_same_steps_and_the_memory_is_free_meanwhile(tmp_path: Path) -> None:
    build("moe").save_pretrained(tmp_path)
    output = launch(2, Path(__file__).parent / "offload_ranks.py", str(tmp_path), json.dumps(CASES), timeout=300)
    assert output.count("CASE HOLDS") == len(CASES)
