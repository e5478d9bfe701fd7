"""An engine that starts empty, on real vLLM (see life_ranks.py): a refit fills it, and nothing is left unwritten."""

import re
from pathlib import Path

import pytest

from tests.launch import REPOSITORY, launch

pytestmark = pytest.mark.slow


def test_an_engine_s_life(tmp_path: Path) -> None:
    said = launch(1, REPOSITORY / "tests/rollout/life_ranks.py", str(tmp_path), timeout=400)
    outcomes = re.split(r"^CHECK (\w+ \w+) ", said, flags=re.MULTILINE)[1:]
    wrong = [f"{name}: {text}" for name, text in zip(outcomes[::2], outcomes[1::2], strict=True) if text[:2] != "ok"]
    assert not wrong, "\n".join(wrong)
    assert len(outcomes) == 2 * 8
