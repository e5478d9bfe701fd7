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
    assert [bool(turn.verifier) for turn in turns] == [False] * 5 + [True] * 5
    called = [message for message in turns[2].messages if "tool_calls" in message]
    assert called and all(message["reasoning_content"] for message in called)


@pytest.mark.parametrize("name", ["swe_agent_function_calling.traj", "mini_swe_agent.traj.json"])
def test_other_agents_logs_are_refused_by_name(shared_data, name):
    with pytest.raises(ValueError, match="format not recognised"):
        list(TurnReader(TrajectoriesConfig(files=[str(shared_data / "trajectories" / name)]), 0))


def test_inspection_of_the_airline_file(shared_data):
    path = str(shared_data / "trajectories" / "tau_bench_airline_gpt4o.json")
    found = inspect(TrajectoriesConfig(files=[path]), 0)
    expected = {"trajectories": 100, "assistant_turns": 1229, "calls": 572, "message_turns": 657, "messages": 2658}
    assert {key: found[key] for key in expected} == expected
    assert found["per_tool"]["get_reservation_details"] == 187
    assert sum(found["prompt_characters"].values()) == sum(found["splits"].values()) == 1229
