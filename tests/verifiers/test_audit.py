"""The audit finds known holes, and finds none where there are none."""

import json

import pytest

from pivotrl.trajectories.ids import stable_hash
from pivotrl.verifiers.attempt import Attempt
from pivotrl.verifiers.audit import PROBES, Donors, normal_form, probes_of
from pivotrl.verifiers.base import VerifierConfig
from pivotrl.verifiers.robust.wellformed import format_fault
from pivotrl.verifiers.rows import RowReader, TurnRows
from pivotrl.verifiers.score_files import Outputs
from pivotrl.verifiers.scoring import score_audit
from tests.trajectories.rows import chat_row, write_rows
from tests.verifiers.test_score import call_command, read, write

TOOLS = [
    {"type": "function", "function": {"name": name, "parameters": {"type": "object", "properties": properties}}}
    for name, properties in (("get", {"id": {"type": "string"}}), ("ping", {"times": {"default": 1}}))
]
HISTORY = [{"role": "user", "content": "Where is order A-1?"}]


def call(name, **arguments):
    return {"type": "function_call", "name": name, "arguments": json.dumps(arguments)}


def row(expert):
    return {"expected_action": expert, "tools": TOOLS, "messages": HISTORY}


CALLS = [row(call("get", id=f"A-{index}")) for index in range(6)] + [row(call("ping", times=3))]
MESSAGES = [row({"type": "message", "content": text}) for text in ("It is lost.", "Which order do you mean?", "Done")]


def audit(tmp_path, rows, **config):
    path, out = write(tmp_path / "in.jsonl", *rows), tmp_path / "out.jsonl"
    section = VerifierConfig(workers=0, **config)
    holds = score_audit(RowReader(path, section, None), section, Outputs(str(out), []), say=lambda text: None)
    probes = read(out)
    broken = {probe["probe"] for probe in probes if not probe["holds"]}
    assert holds == (not broken)
    assert {probe["probe"] for probe in probes} <= set(PROBES)
    return broken


def test_nemo_gyms_loopholes_are_found(tmp_path):
    assert audit(tmp_path, CALLS, name="tool_call") == {"all_tools", "surplus", "half_closed"}
    found = audit(tmp_path, MESSAGES, name="tool_call")
    assert found == {"other_row", "same_tool", "empty", "message_only", "prompt_copy"}


def test_a_strict_verifier_and_one_that_grades_both_hold(tmp_path):
    assert audit(tmp_path, CALLS + MESSAGES, name="exact") == {"half_closed"}, "it reads what the parser found"
    graded = {"parallel_tool_call_reward_mode": "f1", "allow_subset": True, "allow_superset": True}
    pair = row({"type": "function_call_batch", "calls": [call("get", id="A-7"), call("ping", times=4)]})
    counted = {"parallel_tool_call_rewarding": True, **graded}
    assert audit(tmp_path, [*CALLS, pair], name="tool_call", params=counted) == {"half_closed"}


def test_robust_holds_where_the_expert_calls(tmp_path):
    assert audit(tmp_path, CALLS, name="tool_call", preset="robust") == set()
    assert audit(tmp_path, CALLS, name="tool_call", preset="robust", params={"count": "strict"}) == set()


@pytest.mark.parametrize(
    "body, broken",
    [
        ("return Verdict(0.0, 'never')", {"expert"}),
        ("return Verdict(1.0, 'always')", set(PROBES) - {"expert"}),
        ("return Verdict(float(bool(attempt.items)), 'any')", set(PROBES) - {"expert"}),
        (
            "return Verdict(float(attempt.items[0] == attempt.expert), 'first')",
            {"empty", "all_tools", "surplus", "half_closed"},
        ),
        ("return Verdict(0.5 * (attempt.items == [attempt.expert]), 'half')", {"expert", "half_closed"}),
        ("return Verdict(float(attempt.items == [attempt.expert] and not attempt.text), 'closed')", set()),
        (
            "return Verdict(float('name' not in attempt.items[0]), 'talk')",
            {"expert", "empty", "message_only", "prompt_copy"},
        ),
        (
            "names = [item.get('name') for item in attempt.items]\n"
            "        return Verdict(float(names == [attempt.expert['name']]), 'name')",
            {"other_row", "same_tool", "no_arguments", "half_closed"},
        ),
    ],
)
def test_a_bad_verifier_of_the_users_is_found(tmp_path, monkeypatch, body, broken):
    name = f"audited_{stable_hash(body)}"
    source = "from pivotrl.verifiers.base import Verdict, Verifier\nclass Mine(Verifier):\n"
    source += f"    def __init__(self, params): pass\n    def verify(self, attempt, params=None):\n        {body}\n"
    (tmp_path / f"{name}.py").write_text(source)
    monkeypatch.syspath_prepend(str(tmp_path))
    assert audit(tmp_path, CALLS, name=f"{name}:Mine") == broken


def probes(expert, donors=(), tools=TOOLS, messages=HISTORY, seed=0):
    found = {}
    for probe in probes_of(Attempt(expert, [], None, tools, messages), seed, Donors([expert, *donors])):
        found.setdefault(probe.name, []).append(probe)
    return found


def test_probes_of_a_call():
    expert, other = call("get", id="A-1"), call("get", id="A-2")
    found = probes(expert, [other])
    assert [probe.items for probe in found["expert"]] == [[expert]]
    assert found["other_row"][0].items == found["same_tool"][0].items == [other]
    assert [probe.items for probe in found["empty"]] == [[], [said("")], [said(" \n")]]
    assert found["no_arguments"][0].items == [call("get")]
    assert found["all_tools"][0].items == [expert, call("ping")]
    assert found["prompt_copy"][0].items == [said("Where is order A-1?")]
    for probe, place in zip(found["surplus"], (0, 10), strict=True):
        assert len(probe.items) == 21 and probe.items[place] == expert and probe.items.count(expert) == 1
    allowed = {name: found[name][0].allowed for name in found}
    assert allowed.pop("all_tools") == pytest.approx(2 / 3) and allowed.pop("surplus") == pytest.approx(2 / 22)
    assert allowed.pop("expert") == 1 and set(allowed.values()) == {0}


def test_a_half_closed_call_is_one_for_the_parser_and_none_for_robust():
    one, other = call("get", id="A-1"), call("ping", times=2)
    (probe,) = probes({"type": "function_call_batch", "calls": [one, other]})["half_closed"]
    assert probe.items == [one, other] and probe.allowed == 0
    assert probe.text.count("<tool_call>") == 2 and probe.text.count("</tool_call>") == 1
    assert format_fault(Attempt(one, probe.items, probe.text)).reason == "format"
    assert format_fault(Attempt(one, probe.items, probe.text + "\n</tool_call>")) is None
    assert "half_closed" not in probes(said("It is lost."))


def said(text):
    return {"type": "message", "content": text}


def test_what_is_the_experts_own_action_is_no_probe():
    assert "all_tools" not in probes(call("ping"), tools=TOOLS[1:])
    assert "no_arguments" not in probes(call("ping"))
    assert "no_arguments" not in probes(call("ping", times=1)), "its default: the same call"
    assert "no_arguments" in probes(call("ping", times=2))
    assert "other_row" not in probes(call("get", id="a", x=1), [call("get", x=1, id="A")])
    assert "prompt_copy" not in probes(said("where is order A-1"))
    assert "empty" not in probes(said(" "))
    assert "message_only" not in probes(said("I will do that now"))
    assert "prompt_copy" not in probes(call("ping", times=2), messages=[])


def test_probes_without_tools_or_other_rows():
    found = probes(said("42"), tools=[], messages=[])
    assert set(found) == {"expert", "empty", "message_only"}
    found = probes(call("get", id="A-1"), tools=[], messages=[])
    assert set(found) == {"expert", "empty", "message_only", "no_arguments", "surplus", "half_closed"}
    assert len(found["surplus"][0].items) == 21


def test_donors_are_the_same_in_any_order_and_bounded():
    actions = [call("get", id=str(index)) for index in range(500)] + [call(f"f{index}") for index in range(2000)]
    one, other = Donors(actions), Donors(reversed(actions[:500]))
    assert len(one.tool_names) == 1000
    picked = {json.dumps(one.same_kind(actions[0], seed)) for seed in range(300)}
    assert 32 < len(picked) <= 64 and json.dumps(actions[0]) not in picked
    assert picked == {json.dumps(other.same_kind(actions[0], seed)) for seed in range(300)}


def test_normal_forms():
    assert normal_form(call("f", a=1, b="X y")) == normal_form(call("f", b="x Y", a=1))
    assert normal_form(call("f", a="(1 + 2) + 3")) == normal_form(call("f", a="3+2+1"))
    assert normal_form(call("f", a=1)) != normal_form(call("f", a=2)) != normal_form(call("g", a=2))
    assert normal_form(said("Sure, it is!")) == normal_form(said(" sure it  is"))
    assert normal_form(said("!")) != normal_form(said("?"))
    one, two = call("f", a=1), call("g")
    batch = {"type": "function_call_batch", "calls": [one, two]}
    assert normal_form(batch) == normal_form(batch | {"calls": [two, one]}) != normal_form(one)


def test_the_command_prints_the_probes_and_the_rows_that_break(monkeypatch, tmp_path, capsys):
    rows = write(tmp_path / "in.jsonl", *CALLS, "{")
    assert call_command(monkeypatch, "--verifier", "tool_call", "--audit", "--rows", rows) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].split()[:5] == ["expert", "7", "1.000", "1.000", "0"]
    table = {line.split()[0]: line.split()[1:5] for line in lines[1:11]}
    assert table["surplus"] == ["14", "1.000", "0.091", "14"] and table["empty"] == ["21", "0.000", "0.000", "0"]
    assert lines[12] == "28 of 90 probes break; 20 of them, by row, probe, reward and reason:"
    assert lines[13].split() == ["0", "all_tools", "1.000", "call_matches"]
    assert len(lines) == 13 + 20 + 2
    assert lines[-1].startswith("rejected 1 rows (malformed_json 1): in.jsonl line 8: malformed_json")
    words = ["--verifier", "tool_call", "--preset", "robust", "--audit", "--rows", rows]
    assert call_command(monkeypatch, *words) == 0
    assert "all hold" in capsys.readouterr().out


def test_trajectory_files_are_audited_turn_by_turn(monkeypatch, tmp_path, capsys):
    path = write_rows(tmp_path / "mine.jsonl", [chat_row("a"), chat_row("b"), "{"])
    out = tmp_path / "out.jsonl"
    assert call_command(monkeypatch, "--verifier", "exact", "--audit", "--trajectories", path, "--out", out) == 1
    assert {row["id"] for row in read(out)} == {f"mine:{name}/{turn}" for name in "ab" for turn in (0, 1)}
    assert [row["row"] for row in read(tmp_path / "out.rejected.jsonl")] == ["line 3"]


def test_rows_of_pivots_are_audited(tmp_path):
    turn = {"id": "x:1/0", "messages": HISTORY, "tools": TOOLS, "expert": call("get", id="A-1"), "verifier": {}}
    assert audit(tmp_path, [{"turn": turn}, *CALLS], name="tool_call", preset="robust") == set()


def test_a_turn_that_names_an_unknown_verifier_is_rejected(tmp_path):
    from pivotrl.trajectories.config import TrajectoriesConfig
    from pivotrl.trajectories.turns import TurnReader

    path = write_rows(tmp_path / "a.jsonl", [chat_row("a", verifier={"name": "magic"}), chat_row("b")])
    found = list(TurnRows(TurnReader(TrajectoriesConfig(files=[path]), 0), VerifierConfig()))
    assert [row.id for row in found] == ["a:a/0", "a:a/1", "a:b/0", "a:b/1"]
    assert [type(row).__name__ for row in found] == ["BadRow", "BadRow", "ScoreRow", "ScoreRow"]
    assert found[0].rejected.reason == "bad_verifier"


def test_real_trajectories(tmp_path, shared_data):
    """tau-bench airline, where the expert acts: NeMo-Gym's verifier has holes, robust has none. Left out: messages, and
    the tool `think`, whose argument is free text, so that two rows may well say the same."""
    from pivotrl.trajectories.config import TrajectoriesConfig
    from pivotrl.trajectories.turns import TurnReader

    files = [str(shared_data / "trajectories" / "tau_bench_airline_gpt4o.json")]
    broken = {}
    for preset in ("nemo_gym", "robust"):
        section, out = VerifierConfig(preset=preset, workers=0), tmp_path / "out.jsonl"
        rows = list(TurnRows(TurnReader(TrajectoriesConfig(files=files), 0), section))
        calls = [row for row in rows if row.attempt.expert.get("name", "think") != "think"]
        assert len(rows) == 1229 and len(calls) == 524
        score_audit(calls[:200], section, Outputs(str(out), []), say=lambda text: None)
        broken[preset] = {row["probe"] for row in read(out) if not row["holds"]}
    assert broken["nemo_gym"] >= {"all_tools", "surplus"} and broken["robust"] == set()
