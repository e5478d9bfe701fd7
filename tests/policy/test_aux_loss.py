"""The load-balancing loss: its value and gradient on every kind of layout."""

import json
from pathlib import Path

import pytest

from tests.launch import launch
from tests.policy.tiny import build

CASES = [
    {"training": {"micro_batch_tokens": 4096}},  # four data-parallel ranks, of which one has a dummy
    {"parallel": {"expert": 4}},
    {"parallel": {"tensor": 2, "expert": 2}, "training": {"packing": "plain"}, "model": {"recompute": "selective"}},
    {"parallel": {"tensor": 2, "pipeline": 2, "expert": 2}, "model": {"recompute": "full"}},  # padding on both stages
]


@pytest.mark.slow
def test_value_and_gradient_are_those_of_the_definition(tmp_path: Path) -> None:
    build("moe").save_pretrained(tmp_path)
    output = launch(4, Path(__file__).parent / "aux_ranks.py", str(tmp_path), json.dumps(CASES), timeout=400)
    results = [json.loads(line.split("CASE ", 1)[1]) for line in output.splitlines() if "CASE " in line]
    assert len(results) == len(CASES)
    for result in results:
        assert abs(result["value"]) < 1e-5, result
        assert result["gradient"] < 1e-5, result
        assert result["norm"] > 1e-2, result
