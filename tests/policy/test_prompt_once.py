"""Prompt once equals plain packing on every layout: log-probs, loss and every parameter's gradient; mistakes show."""

import json
from pathlib import Path

import pytest

from tests.launch import launch
from tests.policy.tiny import build

CASES = {
    1: [{"mistakes": True}, {"recompute": "selective"}, {"recompute": "full"}],
    2: [
        {"parallel": {"tensor": 2, "expert": 2}, "recompute": "selective", "mistakes": True},
        {"parallel": {"pipeline": 2}},
        {"parallel": {"expert": 2}, "recompute": "full"},
    ],
}


@pytest.mark.parametrize("num_ranks", CASES)
def test_prompt_once_is_plain_packing_but_for_the_tokens(tmp_path: Path, num_ranks: int) -> None:
    build("moe").save_pretrained(tmp_path)
    script = Path(__file__).parent / "prompt_once_ranks.py"
    output = launch(num_ranks, script, str(tmp_path), json.dumps(CASES[num_ranks]), timeout=300)
    results = [json.loads(line.partition("CASE ")[2]) for line in output.splitlines() if "CASE " in line]
    assert len(results) == len(CASES[num_ranks]), output
    for result in results:
        case, plain_gain = result.pop("case"), result.pop("plain_gain")
        assert plain_gain == 1
        for budget in ("4096", "64", "30"):
            found = result.pop(budget)
            print(f"{case} {budget}: {found}")  # seen with -s
            assert found["gain"] > 1.1, (case, budget, found)
            assert found["log_probs"] < 5e-6 and found["loss"] < 1e-6, (case, budget, found)
            assert found["grads"] < 2e-6 and found["worst"] < 1e-5, (case, budget, found)
        assert bool(result) == case.get("mistakes", False)
        for mistake, found in result.items():
            assert found["grads"] > 1e-2, (case, mistake, found)
            # as the gradient alone shows it, no test of log-probs would
            assert (found["log_probs"] > 1e-2) == (mistake != "gradient_scattered_twice"), (case, mistake, found)
