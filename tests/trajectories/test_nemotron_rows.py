"""Rows in the form of the four public Nemotron pivot sets, and the verifiers that their agents' names mean."""

import pytest

from pivotrl.trajectories.config import TrajectoriesConfig
from pivotrl.trajectories.inspection import describe, inspect
from pivotrl.trajectories.metadata import small
from pivotrl.trajectories.readers.agents import VERIFIERS, agent_of_verifier, verifier_of_agent
from pivotrl.trajectories.turns import TurnReader
from pivotrl.verifiers.attempt import Attempt
from pivotrl.verifiers.base import VerifierConfig
from pivotrl.verifiers.registry import build_verifier, row_config
from tests.trajectories.rows import SINGLE_STEP, nemotron_rows, write_rows


def read(tmp_path, rows, **settings):
    path = write_rows(tmp_path / "p.jsonl", rows)
    return list(TurnReader(TrajectoriesConfig(files=[path], **settings), 0))


def test_each_set_reads(tmp_path):
    conversational, function_calling, swe, terminal = read(tmp_path, nemotron_rows().values())
    assert (conversational.trajectory_id, conversational.verifier, conversational.metadata) == ("p:7001", {}, {})
    assert conversational.tools[0]["function"]["strict"] is True
    assert "description" not in conversational.tools[0]["function"]

    history = function_calling.messages
    assert [message["role"] for message in history] == ["user", "assistant", "tool", "assistant", "tool"]
    assert history[0]["content"] == "Renew all. Card C-91."
    assert history[1]["tool_calls"][0]["function"]["arguments"] == "{", "what the expert saw, though it is malformed"
    assert [history[place]["reasoning_content"] for place in (1, 3)] == ["Verify first.", "Again."]
    assert history[3]["content"] == "One moment." and len(function_calling.expert["calls"]) == 2

    threshold = {"word_count_similarity_threshold": 0.0}
    assert swe.verifier == {"name": "tool_call", "preset": "nemo_gym", "params": threshold}
    assert swe.metadata == {"instance_id": "demo__u-1"}, "a long patch is not carried along"

    assert terminal.expert["type"] == "message" and '"keystrokes"' in terminal.expert["content"]
    assert terminal.verifier["params"] == {"string_similarity_threshold": 0.9} and terminal.n_turns == 0
    assert terminal.trajectory_id == "p:0123456789abcdef" and terminal.metadata["harness"] == "terminus_2"
    assert terminal.turn_index == 1 and terminal.tools == []


def test_tasks_stay_on_one_side_of_the_split(tmp_path):
    rows = []
    for number in range(60):
        swe, terminal = nemotron_rows()["swe"], nemotron_rows()["terminal"]
        swe |= {"trajectory_id": number, "metadata": {"instance_id": f"i{number // 3}"}}
        terminal |= {"task_name": f"t{number // 3}", "metadata": {"source_trajectory_uid": f"u{number}"}}
        rows += [swe, terminal]
    turns = read(tmp_path, rows, heldout_share=0.5)
    splits: dict[str, set[str]] = {}
    for row, turn in zip(rows, turns, strict=True):
        splits.setdefault(row.get("task_name") or row["metadata"]["instance_id"], set()).add(turn.split)
    assert len(splits) == 40 and all(len(sides) == 1 for sides in splits.values())
    assert len({turn.trajectory_id for turn in turns}) == 120


def test_a_row_s_own_verifier_comes_first_and_the_run_may_overrule_both(tmp_path):
    rows = nemotron_rows()
    own = {"name": "name_only"}
    rows["swe"]["verifier"] = own
    assert [turn.verifier.get("name") for turn in read(tmp_path, rows.values())] == [
        None,
        None,
        "name_only",
        "terminal",
    ]
    assert not any(turn.verifier for turn in read(tmp_path, rows.values(), row_verifiers=False))
    found = inspect(TrajectoriesConfig(files=[str(tmp_path / "p.jsonl")]), 0)
    assert found["verifiers"] == {"the run's": 2, "name_only": 1, "terminal": 1}
    assert "verifier that the row names" in describe(found)


@pytest.mark.parametrize(
    "agent, name, params",
    [
        (f"{SINGLE_STEP}_swe", "tool_call", {"word_count_similarity_threshold": 0.0}),
        (f"swe_pivot_{SINGLE_STEP}_agent", "tool_call", {"word_count_similarity_threshold": 0.0}),
        ("swe_pivot_tool_simulation_agent", "swe_pivot", None),
        (f"search_pivot_{SINGLE_STEP}_agent", "search", None),
        ("terminus_judge_simple_agent", "terminal", {"string_similarity_threshold": 0.95}),
        ("terminus_judge_string_only_simple_agent", "terminal", {"string_similarity_threshold": 0.9}),
        (f"{SINGLE_STEP}_agent", None, None),
        (f"toolcall_schema_{SINGLE_STEP}_agent", None, None),
        ("single_step_tool_simulation_agent", None, None),
        ("my_agent", None, None),
        (["x"], None, None),
        (None, None, None),
    ],
)
def test_agents_mean_verifiers(agent, name, params):
    found = verifier_of_agent({"type": "responses_api_agents", "name": agent})
    assert (found.get("name"), found.get("params")) == (name, params)
    assert found.get("preset") == ("nemo_gym" if name else None)


@pytest.mark.parametrize("run", [{}, {"name": "tool_call", "preset": "robust"}, {"name": "shell"}])
def test_the_verifiers_that_agents_mean_can_be_built_and_take_their_parameters(run):
    for known in VERIFIERS.values():
        row = {**known, "preset": "nemo_gym"}
        verifier = build_verifier(row_config(VerifierConfig(**run), row))
        verdict = verifier.verify(Attempt({"type": "message", "content": "{}"}, []), row.get("params"))
        assert verdict.reward == 0


def test_every_agent_is_found_again_by_its_verifier():
    for known in VERIFIERS.values():
        assert verifier_of_agent({"name": agent_of_verifier(known)}) == {**known, "preset": "nemo_gym"}
    assert agent_of_verifier({"name": "tool_call"}) == agent_of_verifier({}) == f"{SINGLE_STEP}_agent"
    assert agent_of_verifier({"name": "terminal"}) == "terminus_judge_string_only_simple_agent"


def test_metadata_is_kept_small():
    assert small({"a": "x" * 10_000, "b": "x" * 10_001, "c": None, "d": [1] * 9000, "e": 0}) == {
        "a": "x" * 10_000,
        "e": 0,
    }
    assert small(None) == small([1]) == small("x") == {}
