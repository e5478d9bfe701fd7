"""The readers on real public data (in the developers' folder)."""

from collections import Counter

import pytest

from pivotrl.trajectories.actions import calls_of
from pivotrl.trajectories.config import TrajectoriesConfig
from pivotrl.trajectories.inspection import inspect
from pivotrl.trajectories.records import Turn
from pivotrl.trajectories.turns import TurnReader


def test_tau_bench_airline(shared_data):
    path = str(shared_data / "trajectories" / "tau_bench_airline_gpt4o.json")
    reader = TurnReader(TrajectoriesConfig(files=[path]), 0)
    turns = list(reader)
    assert all(isinstance(turn, Turn) for turn in turns)
    assert (reader.trajectories, len(turns)) == (100, 1229)
    assert sum(len(calls_of(turn.expert)) for turn in turns) == 572
    assert len({turn.id for turn in turns}) == 1229
    assert {turn.n_turns for turn in turns if turn.trajectory_id.endswith(":0-0")} == {15}
    assert len(turns[0].tools) == 14

    experts = TurnReader(TrajectoriesConfig(files=[path], min_reward=1), 0)
    assert len(list(experts)) == 411 and experts.trajectories == 43 and experts.filtered.total() == 57


def test_nemo_gym_examples(shared_data):
    files = [str(path) for path in sorted((shared_data / "nemo_gym").glob("*.jsonl"))]
    turns = list(TurnReader(TrajectoriesConfig(files=files), 0))
    assert Counter(turn.expert["type"] for turn in turns) == {"function_call": 3, "message": 7}
    assert [turn.verifier.get("name") for turn in turns] == [None] * 5 + ["terminal"] * 5
    called = [message for message in turns[2].messages if "tool_calls" in message]
    assert called and all(message["reasoning_content"] for message in called)


def test_swe_agent(shared_data):
    path = str(shared_data / "trajectories" / "swe_agent_function_calling.traj")
    turns = list(TurnReader(TrajectoriesConfig(files=[path]), 0))
    kinds = {"bash": 4, "edit": 3, "create": 1, "find_file": 1, "open": 1, "submit": 1}
    assert Counter(turn.expert["name"] for turn in turns) == kinds
    assert [tool["function"]["name"] for tool in turns[0].tools] == sorted(kinds)
    last = turns[-1].messages
    assert [message["role"] for message in last] == ["system", "user", *["assistant", "tool"] * 10]
    assert all(last[place]["tool_calls"][0]["id"] == last[place + 1]["tool_call_id"] for place in range(2, 22, 2))
    assert last[2]["content"].startswith("Let's first start by reproducing")
    edit = next(tool["function"] for tool in turns[0].tools if tool["function"]["name"] == "edit")
    assert edit["parameters"]["properties"]["start_line"] == {"type": "integer"}


def test_mini_swe_agent(shared_data):
    path = str(shared_data / "trajectories" / "mini_swe_agent.traj.json")
    turns = list(TurnReader(TrajectoriesConfig(files=[path]), 0))
    assert len(turns) == 10 and all(turn.expert["type"] == "message" and turn.tools == [] for turn in turns)
    assert all(turn.expert["content"].count("```mswea_bash_command\n") == 1 for turn in turns)
    assert [message["role"] for message in turns[-1].messages] == ["system", "user", *["assistant", "user"] * 9]


@pytest.mark.parametrize(
    "name, format, actions",
    [
        ("swe_agent_function_calling.traj", "swe_agent", {"bash": 4, "edit": 3}),
        ("mini_swe_agent.traj.json", "mini_swe_agent", {"(message)": 10}),
    ],
)
def test_inspection_of_other_agents_logs(shared_data, name, format, actions):
    path = str(shared_data / "trajectories" / name)
    found = inspect(TrajectoriesConfig(files=[path]), 0)
    assert found["files"] == {path: format} and found["bad_rows"] == 0
    assert actions.items() <= found["per_tool"].items()


def test_inspection_of_the_airline_file(shared_data):
    path = str(shared_data / "trajectories" / "tau_bench_airline_gpt4o.json")
    found = inspect(TrajectoriesConfig(files=[path]), 0)
    expected = {"trajectories": 100, "assistant_turns": 1229, "calls": 572, "message_turns": 657, "messages": 2658}
    assert {key: found[key] for key in expected} == expected
    assert found["per_tool"]["get_reservation_details"] == 187
    assert sum(found["prompt_characters"].values()) == sum(found["splits"].values()) == 1229
