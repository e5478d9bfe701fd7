"""The three measurements with an engine that recites; what is kept of them; and what goes wrong in one line."""

import json
from types import SimpleNamespace

import pytest

from pivotrl.config import parse_config
from pivotrl.demo.environment import DeskEnvironment
from pivotrl.demo.families import FAMILIES
from pivotrl.demo.trajectories import rows
from pivotrl.evaluation import measure, store
from pivotrl.evaluation.comparison import mean_of
from pivotrl.evaluation.heldout import read_heldout
from pivotrl.evaluation.measure import check, evaluate, heldout_pivots
from pivotrl.pivots.score import Scorer
from pivotrl.trajectories.ids import stable_hash
from tests.evaluation.reciter import COUNT, STREAM, Reciter, book, session_of, template
from tests.pivots.fakes import FakeParser, FakeTemplate, run_config
from tests.trajectories.rows import TOOLS, chat_row, write_rows

__all__ = ["book", "template"]  # fixtures

LENGTHS = [sum(m["role"] == "assistant" for m in row["messages"]) for row in rows(COUNT, STREAM)]


def run(folder, template, engine, pivots=None, **settings):
    session = session_of(folder, template, engine, **settings)
    return evaluate(session, session.config.evaluation, "policy", pivots)


def test_the_expert_scores_one_everywhere(tmp_path, template, book):
    engine = Reciter(template, book)
    result = run(tmp_path, template, engine)
    for decoding in ("sampled", "greedy"):
        assert mean_of(result, "turn_reward", decoding) == mean_of(result, "task_success", decoding) == 1.0
        assert mean_of(result, "families", decoding) == 1.0 == mean_of(result, "family add", decoding)
        assert mean_of(result, "task_turns", decoding) == sum(LENGTHS) / COUNT
        assert mean_of(result, "violations", decoding) == 0.0
    assert len(result["turns"]["sampled"]) == sum(LENGTHS) and len(result["families"]["greedy"]) == 20 * len(FAMILIES)
    assert engine.calls == 2 * (1 + max(LENGTHS) + 1), "one call for the turns, one a round of all dialogs, one more"
    assert engine.resets == 6, "a part starts with an empty prefix cache, so that a continued one gives the same"
    assert json.loads(json.dumps(result)) == result


def test_spoiled_samples_are_counted(tmp_path, template, book):
    result = run(tmp_path, template, Reciter(template, book, spoil_every=4))
    assert mean_of(result, "turn_reward", "sampled") == 0.75 and mean_of(result, "mixed", "sampled") == 1.0
    assert mean_of(result, "families", "sampled") == 0.75, "six of eight samples are right"
    assert mean_of(result, "turn_reward", "greedy") == 0.0, "the first sample is a spoiled one"
    assert mean_of(result, "task_success", "sampled") == 0.0
    assert {one["reasons"][0] for one in result["turns"]["sampled"]} >= {"other_tool", "call_where_message_expected"}
    assert all(one["answer"] == "" for one in result["families"]["sampled"]), "a call is no answer"


def test_a_mute_policy_fails(tmp_path, template):
    result = run(tmp_path, template, Reciter(template, {}), greedy=[])
    messages = [m for row in rows(COUNT, STREAM) for m in row["messages"] if m["role"] == "assistant"]
    share = sum(not m.get("tool_calls") for m in messages) / len(messages)
    assert mean_of(result, "turn_reward", "sampled") == pytest.approx(share), "any message is right for a message"
    assert mean_of(result, "families", "sampled") == 0.0 == mean_of(result, "task_success", "sampled")
    assert "greedy" not in result["turns"]


def test_seeds_are_each_requests_own_and_the_demos(tmp_path, template, book):
    engine = Reciter(template, book)
    result = run(tmp_path, template, engine, greedy=[])
    turns = sum(LENGTHS)
    ids = [one["id"] for one in result["turns"]["sampled"]]
    assert [one.seed for one in engine.asked[:turns]] == [stable_hash("evaluate", 0, i) % 2**31 for i in ids]
    firsts = [stable_hash("evaluate", 0, f"desk-{STREAM}-{index}/0") % 2**31 for index in range(COUNT)]
    assert [one.seed for one in engine.asked[turns : turns + COUNT]] == firsts
    other = Reciter(template, book)
    (tmp_path / "other").mkdir()
    run(tmp_path / "other", template, other, greedy=[], seed=1)
    assert not {one.seed for one in other.asked} & {one.seed for one in engine.asked}


def test_pivots_are_chosen_by_samples_of_their_own(tmp_path, template, book):
    session = session_of(tmp_path, template, engine := Reciter(template, book, spoil_every=2))
    pivots = heldout_pivots(session, session.config.evaluation)
    assert len(pivots) == sum(LENGTHS), "half of the samples are right everywhere"
    seeds = {one.seed for one in engine.asked}
    assert {one.n for one in engine.asked} == {4}
    result = evaluate(session, session.config.evaluation, "base", pivots[:5])
    assert not seeds & {one.seed for one in engine.asked[sum(LENGTHS) :]}
    assert mean_of(result, "turn_reward_pivots", "sampled") == 0.5 and result["pivots"] == sorted(pivots[:5])
    calls = engine.calls
    assert heldout_pivots(session, session.config.evaluation) == pivots and engine.calls == calls, "profiled once"
    easy = replace_config(session, pivots={"samples": 4, "max_mean": 0.5})
    assert heldout_pivots(easy, easy.config.evaluation) == [] and engine.calls == calls, "lambda only chooses"


def replace_config(session, **sections):
    tree = session.config.model_dump(mode="json") | sections
    return SimpleNamespace(**{**vars(session), "config": parse_config(tree, "test")})


@pytest.mark.parametrize("die_at", [0, 3, 14])
def test_killed_it_continues_with_the_same_results(tmp_path, template, book, monkeypatch, die_at):
    monkeypatch.setattr(store, "CHUNK", 20)
    whole = Reciter(template, book, spoil_every=3)
    (tmp_path / "a").mkdir()
    expected = run(tmp_path / "a", template, whole)
    (tmp_path / "b").mkdir()
    killed = Reciter(template, book, spoil_every=3)
    killed.die_at = die_at
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path / "b", template, killed)
    again = Reciter(template, book, spoil_every=3)
    for path in (tmp_path / "b" / "run").rglob("*.jsonl"):
        with path.open("a") as file:
            file.write('{"from": 7, "resu')  # what a kill may leave of a line
    found = run(tmp_path / "b", template, again)
    assert found | {"seconds": 0} == expected | {"seconds": 0} | {"settings": found["settings"]}
    assert again.calls < whole.calls or die_at == 0
    third = Reciter(template, book, spoil_every=3)
    run(tmp_path / "b", template, third)
    assert third.calls == 0, "nothing is measured twice"
    third.weights = "others"
    run(tmp_path / "b", template, third, greedy=[])
    assert third.calls > 0, "other weights are another policy"


def test_what_decides_a_part_makes_another_part(tmp_path, template, book):
    only = {"greedy": ["turns"], "sampled": [], "environment": None, "families": None}
    engine = Reciter(template, book)
    result = run(tmp_path, template, engine, **only)
    assert set(result) == {"name", "weights", "settings", "pivots", "turns", "seconds"} and engine.calls == 1
    run(tmp_path, template, engine, **only, draws=200, samples=3)
    assert engine.calls == 1, "neither decides a greedy completion"
    run(tmp_path, template, engine, **only, trajectories=5)
    assert engine.calls == 2
    found = run(tmp_path, template, engine, **only, trajectories=5)["turns"]["greedy"]
    assert engine.calls == 2 and len({one["trajectory"] for one in found}) == 5


def test_a_damaged_part_is_named(tmp_path, template, book):
    only = {"greedy": ["families"], "sampled": []}
    run(tmp_path, template, Reciter(template, book), **only)
    (path,) = (tmp_path / "run" / "evaluation" / "parts").iterdir()
    lines = path.read_text().splitlines()
    row = json.loads(lines[1])
    row["results"].pop()
    for damaged, line in (([lines[0], json.dumps(row)], 2), (["{}", lines[1]], 1), ([*lines, lines[1]], 3)):
        path.write_text("\n".join(damaged) + "\n")
        with pytest.raises(ValueError, match=rf"{path.name}:{line}: not what an evaluation writes; delete the file"):
            run(tmp_path, template, Reciter(template, book), **only)


def test_what_cannot_be_measured_is_one_line(tmp_path, template, book, monkeypatch):
    def raises(says, **sections):
        session = replace_config(session_of(tmp_path, template, Reciter(template, book)), **sections)
        for work in (check, lambda config: evaluate(session, config.evaluation, "x")):
            with pytest.raises(ValueError, match=says) as caught:
                work(session.config)
            assert "\n" not in str(caught.value)

    files = {"files": [str(tmp_path / "t.jsonl")]}
    raises(
        "no held-out turn to measure: trajectories.heldout_share is 0, and of 12",
        trajectories=files | {"heldout_share": 0},
    )
    raises("nothing is to be measured", evaluation={"sampled": ["tasks"], "greedy": ["families"]})
    raises(
        "environment.name: 'nowhere' is not an environment",
        evaluation={"sampled": ["tasks"], "environment": "nowhere", "greedy": []},
    )
    short = replace_config(
        session_of(tmp_path, template, Reciter(template, book)), rollout={"max_model_len": 60, "max_new_tokens": 48}
    )
    with pytest.raises(ValueError, match=r"none of the \d+ held-out turns can be measured: turn .* prompt tokens"):
        evaluate(short, short.config.evaluation, "x")

    def broken(self, items):
        raise RuntimeError("the database is gone")

    monkeypatch.setattr(DeskEnvironment, "step", broken)
    session = session_of(tmp_path, template, Reciter(template, book), sampled=["tasks"], greedy=[])
    with pytest.raises(ValueError, match=r"step\(\) of task 0 raised RuntimeError: the database is gone"):
        evaluate(session, session.config.evaluation, "x")
    assert measure.parts_of(session.config.evaluation) == ["tasks"]


def test_heldout_trials_of_a_task_are_one_group(tmp_path):
    messages = chat_row()["messages"]
    trials = [{"task_id": n // 3, "trial": n % 3, "reward": 1.0, "traj": messages} for n in range(12)]
    config = run_config([write_rows(tmp_path / "a.json", trials)], trajectories={"heldout_share": 0.999999})
    heldout = read_heldout(config, Scorer(config.verifier, FakeParser(), FakeTemplate()), FakeTemplate())
    assert len({turn.trajectory_id for turn in heldout.turns}) == 12 and len(set(heldout.groups)) == 4
    assert len(heldout.groups) == len(heldout.turns)


def test_other_tools_in_the_tools_file_are_measured_anew(tmp_path, template, book):
    tools, only = tmp_path / "tools.json", {"greedy": ["turns"], "sampled": [], "environment": None, "families": None}
    session = session_of(tmp_path, template, engine := Reciter(template, book), **only)
    section = session.config.trajectories.model_dump(mode="json") | {"tools": str(tools)}
    for text, calls in ((TOOLS, 1), (TOOLS, 1), (TOOLS * 1 + [changed()], 2)):
        tools.write_text(json.dumps(text))
        one = replace_config(session, trajectories=section)
        evaluate(one, one.config.evaluation, "x")
        assert engine.calls == calls


def changed() -> dict:
    return {"type": "function", "function": {"name": "other", "parameters": {"type": "object", "properties": {}}}}


@pytest.mark.parametrize(
    ("facts", "says"),
    [
        (lambda self: {"violations": "many"}, r"facts\(\) of task 0 raised ValueError"),
        (lambda self: {"violations": float("nan")}, r"facts\(\) of task 0 gave .*nan"),
        (lambda self: {f"of {id(self)}": 1.0}, r"facts\(\) of task 1 names .* name the same ones"),
    ],
)
def test_facts_that_are_none_are_one_line(tmp_path, template, book, monkeypatch, facts, says):
    monkeypatch.setattr(DeskEnvironment, "facts", facts)
    session = session_of(tmp_path, template, Reciter(template, book), sampled=["tasks"], greedy=[])
    with pytest.raises(ValueError, match=says):
        evaluate(session, session.config.evaluation, "x")
