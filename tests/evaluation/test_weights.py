"""Policies into a real session of two ranks: Hugging Face folder, run, step; and those that do not belong there."""

import json
from pathlib import Path

from tests.launch import launch

WORKER = Path(__file__).parent / "weights_ranks.py"


def test_policies_are_loaded_proved_and_refused(tmp_path):
    launch(2, WORKER, str(tmp_path), timeout=900)
    facts = json.loads((tmp_path / "facts.json").read_text())
    assert facts["base"] == facts["base again"] != facts["changed"]
    assert facts["changed 0"] == facts["changed 1"] == facts["changed 2"] == facts["changed"]
    assert facts["measures"][:3] == ["turn_reward_pivots", "turn_reward", "mixed"] and "violations" in facts["measures"]
    assert facts["turns"] > 0 and (tmp_path / "evaluation" / "report.html").stat().st_size > 5000
    parts = {path.name.rsplit("-", 1)[0] for path in (tmp_path / "run" / "evaluation" / "parts").iterdir()}
    assert parts == {"profile", "turns_sampled", "turns_greedy", "tasks_sampled", "tasks_greedy"}
