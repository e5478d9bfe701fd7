"""Hostile responses end in verdicts; `tools/fuzz_verifiers.py` does the same a hundred times longer."""

import importlib.util
from pathlib import Path
from random import Random

import pytest

from pivotrl.verifiers.base import VerifierConfig
from pivotrl.verifiers.hostile import attempts_for
from pivotrl.verifiers.hostile_text import TEXTS, hostile_text
from pivotrl.verifiers.pool import FAULTS, VerdictPool
from pivotrl.verifiers.registry import VERIFIERS, build_verifier
from pivotrl.verifiers.wire import encode, judge_one

EVERY = [(name, preset) for name, presets in VERIFIERS.items() for preset in presets if name != "judge"]
TOOLS = Path(__file__).resolve().parents[2] / "tools"


def tool(name):
    spec = importlib.util.spec_from_file_location(name, TOOLS / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name, preset", EVERY)
def test_hostile_responses_get_verdicts(name, preset):
    verifier = build_verifier(VerifierConfig(name=name, preset=preset))
    attempts = attempts_for(name, 1, 0, 2000 // len(EVERY) + 1, huge=0)
    found = [judge_one(verifier, attempt, None) for attempt in attempts]
    assert [(index, verdict) for index, verdict in enumerate(found) if verdict.reason in FAULTS] == []
    assert 0 < sum(verdict.reward for verdict in found) < len(found), "right answers are among them"
    if name not in ("tool_call", "swe", "shell", "sql", "text"):
        return  # one pool is like another
    with VerdictPool(VerifierConfig(name=name, preset=preset), 1, 20.0) as pool:
        assert pool.judge([(attempt, None) for attempt in attempts[:30]]) == found[:30]


def test_a_judge_that_repeats_what_it_reads_gives_no_reward():
    verifier = build_verifier(VerifierConfig(name="judge", params={"endpoint": "engine"}))
    asked = []
    verifier.attach(lambda prompts, max_tokens: asked.extend(prompts) or prompts)
    found = verifier.verify_all([(attempt, None) for attempt in attempts_for("judge", 1, 0, 200, huge=0)])
    assert asked and not [verdict for verdict in found if verdict.reason in ("judge_same", *FAULTS)]


def test_hostile_texts_are_reproducible_and_of_every_kind():
    for kind in TEXTS:
        made = [hostile_text(Random(seed), kind) for seed in range(40)]
        assert made == [hostile_text(Random(seed), kind) for seed in range(40)]
        assert len(set(made)) > 5
    whole = "".join(hostile_text(Random(seed)) for seed in range(2000))
    assert {"\x00", "\ud800", "{a,b}", "(a+)+", "<tool_call>", "@@ -"} <= {
        part for part in ("\x00", "\ud800", "{a,b}", "(a+)+", "<tool_call>", "@@ -") if part in whole
    }


def test_hostile_attempts_are_reproducible_one_by_one_and_can_be_sent():
    attempts = attempts_for("swe", 5, 0, 200, huge=0.01)
    assert attempts_for("swe", 5, 17, 1) == attempts_for("swe", 5, 0, 18)[17:]
    assert max(len(encode(attempt.items)) for attempt in attempts) > 5_000_000


def test_the_tool_says_which_response_failed(monkeypatch, capsys):
    fuzz = tool("fuzz_verifiers")
    own = VerifierConfig(name="tests.verifiers.unruly:Unruly", preset=None)
    monkeypatch.setattr(fuzz, "chosen", lambda names: [own])
    arguments = ["fuzz", "--count", "20", "--workers", "1"]
    monkeypatch.setattr("sys.argv", arguments)
    assert fuzz.main() == 0
    failing = lambda *_: [attempts_for("", 0, 0, 1)[0].__class__({"type": "message", "content": "x"}, [], "raise")] * 20  # noqa: E731
    monkeypatch.setattr(fuzz, "attempts_for", failing)
    assert fuzz.main() == 1
    assert "20 faults" in (said := capsys.readouterr().out) and "--only 0" in said and "KeyError" in said


def test_the_benchmark_prints_its_table(monkeypatch, capsys, tmp_path):
    bench = tool("bench_verifiers")
    monkeypatch.setattr(
        "sys.argv", ["bench", "--quick", "--only", "tool_call:nemo_gym,number", "--golden", str(tmp_path)]
    )
    assert bench.main() == 0
    said = capsys.readouterr().out
    assert "tool_call:nemo_gym" in said and "built-in" in said and "bar 20,000" in said and "ratio" in said
    monkeypatch.setattr("sys.argv", ["bench", "--only", "magic"])
    assert bench.main() == 2
