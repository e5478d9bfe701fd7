"""No update with a NaN or an infinity on any rank reaches the weights, so none can be saved."""

import json
from pathlib import Path

from tests.launch import launch
from tests.policy.tiny import build


def test_weights_and_moments_are_kept(tmp_path: Path) -> None:
    build("moe").save_pretrained(tmp_path / "model")
    case = {"parallel": {"tensor": 2, "expert": 2}, "dtype": "bfloat16", "checkpoint": {"background": True}}
    script = Path(__file__).parent / "finite_ranks.py"
    output = launch(2, script, str(tmp_path / "model"), str(tmp_path / "run"), json.dumps(case), timeout=200)
    assert "WEIGHTS KEPT" in output
