"""The passes that some objectives need: the reference's and the old policy's log-probs, and none without a signal."""

import json
from pathlib import Path

import pytest

from tests.launch import launch
from tests.policy.tiny import build


@pytest.mark.parametrize(
    "case",
    [
        {"parallel": {"tensor": 2, "expert": 2}, "model": {"dtype": "float32"}},
        {"parallel": {"expert": 2}, "model": {"dtype": "bfloat16"}},
    ],
)
def test_reference_and_old_policy(tmp_path: Path, case: dict) -> None:
    build("moe").save_pretrained(tmp_path)
    assert "PASSES HOLD" in launch(2, Path(__file__).parent / "passes_ranks.py", str(tmp_path), json.dumps(case))
