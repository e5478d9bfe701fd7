"""Nothing that a model wrote is executed, imported, evaluated, or used as a path or a pattern; `watch.py` has the
method."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from pivotrl.verifiers.registry import VERIFIERS
from tests.verifiers.judge.stub import always, judge
from tests.verifiers.touchy import ACTS
from tests.verifiers.watch import NEUTRAL, SENTINEL

REPOSITORY = Path(__file__).resolve().parents[2]
LABELS = [f"{name}:{preset}" for name, presets in VERIFIERS.items() for preset in presets if name != "judge"]


def watched(step, labels):
    command = [sys.executable, "-m", "tests.verifiers.watch", str(step), *labels]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def touched():
    return watched(2, LABELS)


@pytest.mark.parametrize("label", LABELS)
def test_a_verifier_touches_nothing_with_what_a_model_wrote(label, touched):
    assert touched[label] == []
    assert not [name for name in os.listdir("/tmp") if SENTINEL in name or NEUTRAL in name]


def test_the_judge_touches_its_endpoint_and_its_cache_only():
    with judge(always("SAME")) as stub:
        label = f"judge={stub.endpoint}"
        assert watched(31, [label])[label] == []
        assert any(SENTINEL in prompt for prompt in stub.prompts)


@pytest.fixture(scope="module")
def caught():
    names = {act.__name__: f"tests.verifiers.touchy:{act.__name__.title().replace('_', '')}" for act in ACTS}
    found = watched(11, names.values())
    return {act: found[label] for act, label in names.items()}


@pytest.mark.parametrize("act", [act.__name__ for act in ACTS if act.__name__ != "parses"])
def test_a_verifier_that_touches_something_is_caught(act, caught):
    assert caught[act], "the watch is blind to it"


def test_parsing_python_to_a_tree_is_allowed(caught):
    assert caught["parses"] == []
