"""Rows that no model should see are bad rows, told in one record each; the rows beside them are read."""

import copy
import json
import random
from pathlib import Path

import pytest

from pivotrl.trajectories.config import TrajectoriesConfig
from pivotrl.trajectories.records import Rejected
from pivotrl.trajectories.tools import load_tools
from pivotrl.trajectories.turns import TurnReader
from tests.trajectories.rows import call, chat_row, nemotron_rows, write_rows

HALF = "\ud83d"
DEEP = json.loads('{"a":' * 500 + "1" + "}" * 500)


def chat_with(place, key, value):
    row = chat_row()
    row["messages"][place][key] = value
    return row


def nemo(items, **more):
    return {
        "responses_create_params": {"input": items},
        "expected_action": {"type": "message", "content": "c"},
        **more,
    }


def tau(arguments):
    messages = [{"role": "user", "content": "x"}, {"role": "assistant", "tool_calls": [call(arguments=arguments)]}]
    return {"task_id": 1, "reward": 1, "traj": messages}


def schema(**function):
    return [{"type": "function", "function": {"name": "f", **function}}]


CALL_RESULT = [
    {"type": "function_call", "name": "f", "arguments": "{}", "call_id": "a"},
    {"type": "function_call_output", "call_id": ["a"], "output": "x"},
]
ESCAPED = '{"type": "function_call", "name": "f", "arguments": "{\\"a\\": \\"\\\\ud83d\\"}"}'
CASES = {
    "half a character in a call's JSON": (
        chat_with(2, "tool_calls", [call(arguments='{"a": "\\ud83d"}')]),
        "lone_surrogate",
    ),
    "half a character in a call's key": (chat_with(2, "tool_calls", [call(arguments={HALF: 1})]), "lone_surrogate"),
    "half a character in a tool": (chat_row(tools=schema(description=HALF)), "lone_surrogate"),
    "half a character in a schema's key": (chat_row(tools=schema(parameters={HALF: 1})), "lone_surrogate"),
    "half a character in a tool's name": (chat_row(tools=[{"function": {"name": HALF}}]), "lone_surrogate"),
    "half a character in an id": (chat_row(HALF), "lone_surrogate"),
    "half a character in a NeMo action": (nemo("x", expected_action=json.loads(ESCAPED)), "lone_surrogate"),
    "half a character in tau-bench": (tau('{"a": "\\uDFFF"}'), "lone_surrogate"),
    "role is a list": (chat_with(1, "role", ["user"]), "bad_role"),
    "role is a dict": (chat_with(1, "role", {"a": 1}), "bad_role"),
    "tool_call_id is a list": (chat_with(3, "tool_call_id", ["c1"]), "not_text"),
    "tool_call_id is a dict": (chat_with(3, "tool_call_id", {}), "not_text"),
    "tool_call_id is 0": (chat_with(3, "tool_call_id", 0), "not_text"),
    "NeMo call_id is a list": (nemo(CALL_RESULT), "not_text"),
    "NeMo reasoning is 5": (nemo([{"type": "reasoning", "content": 5}]), "bad_input_item"),
    "NeMo reasoning is true": (nemo([{"type": "reasoning", "content": True}]), "bad_input_item"),
    "NeMo reasoning of numbers": (nemo([{"type": "reasoning", "content": [{"text": 5}]}]), "bad_input_item"),
    "deep tau-bench arguments": (tau(DEEP), "nested_too_deeply"),
    "deep tau-bench JSON": (tau(json.dumps(DEEP)), "nested_too_deeply"),
    "deep chat arguments": (chat_with(2, "tool_calls", [call(arguments=DEEP)]), "nested_too_deeply"),
    "deep schema": (chat_row(tools=schema(parameters=DEEP)), "nested_too_deeply"),
    "verifier's name is a list": (chat_row(verifier={"name": []}), "bad_verifier"),
    "verifier's name is null": (chat_row(verifier={"name": None}), "bad_verifier"),
    "verifier is 0": (chat_row(verifier=0), "bad_verifier"),
    "reward is NaN": (chat_row(reward=float("nan")), "bad_reward"),
    "reward is infinite": (chat_row(reward=float("-inf")), "bad_reward"),
    "reward has 400 digits": (chat_row(reward=10**400), "bad_reward"),
}
GOOD = {"openai_chat": chat_row("good"), "nemo_gym": nemo("good"), "tau_bench": tau({"b": 1})}


@pytest.mark.parametrize("case", CASES)
def test_a_hostile_row_is_a_bad_row_and_loses_nothing_else(tmp_path, case):
    row, reason = CASES[case]
    format = "nemo_gym" if "expected_action" in row else "tau_bench" if "traj" in row else "openai_chat"
    path = write_rows(tmp_path / "a.jsonl", [GOOD[format], row, GOOD[format]])
    items = list(TurnReader(TrajectoriesConfig(files=[path], min_reward=None), 0))
    rejected = [item for item in items if isinstance(item, Rejected)]
    assert [(item.reason, item.row.split(" message")[0]) for item in rejected] == [(reason, "line 2")]
    turns = [item for item in items if not isinstance(item, Rejected)]
    assert {turn.source for turn in turns} == {"a.jsonl line 1", "a.jsonl line 3"}
    json.dumps([turn.to_json() for turn in turns], ensure_ascii=False).encode()  # inferred tools, too


@pytest.mark.parametrize("depth", [101, *range(930, 1000, 4), 5000])
@pytest.mark.parametrize("as_text", [True, False])
def test_depth_near_the_parsers_own_limit_stops_nothing(tmp_path, depth, as_text):
    deep = '{"a":' * depth + "1" + "}" * depth
    row = json.dumps(tau("DEEP")).replace('"DEEP"', json.dumps(deep) if as_text else deep)
    path = write_rows(tmp_path / "a.jsonl", [GOOD["tau_bench"], row, GOOD["tau_bench"]])
    items = list(TurnReader(TrajectoriesConfig(files=[path]), 0))
    assert [isinstance(item, Rejected) for item in items] == [False, True, False]


def test_nan_does_not_pass_the_reward_filter(tmp_path):
    path = write_rows(tmp_path / "a.jsonl", [chat_row(reward=float("nan")), chat_row(reward=1)])
    reader = TurnReader(TrajectoriesConfig(files=[path], min_reward=0.5), 0)
    list(reader)
    assert (reader.trajectories, reader.bad_rows, dict(reader.rejected)) == (1, 1, {"bad_reward": 1})


def test_whole_characters_and_malformed_history_still_pass(tmp_path):
    row = chat_with(2, "tool_calls", [call(arguments='{"a": "\\ud83d\\ude00"}')])
    items = list(TurnReader(TrajectoriesConfig(files=[write_rows(tmp_path / "a.jsonl", [row])]), 0))
    assert len(items) == 2 and not any(isinstance(item, Rejected) for item in items)


@pytest.mark.parametrize("value, says", [(schema(description=HALF), "lone_surrogate"), (DEEP, "nested_too_deeply")])
def test_a_hostile_file_of_tools_is_refused(tmp_path, value, says):
    path = tmp_path / "tools.json"
    path.write_text(json.dumps(value))
    with pytest.raises(ValueError, match=rf"trajectories\.tools: .*tools\.json: {says}"):
        load_tools(str(path))


DATA = Path(__file__).parent / "data"
SAMPLES = {
    "swe_agent": json.loads((DATA / "swe_agent.traj").read_text()),
    "mini_swe_agent": json.loads((DATA / "mini_swe_agent.traj.json").read_text()),
    "atif": json.loads((DATA / "atif.json").read_text()),
    "sharegpt": json.loads((DATA / "sharegpt.jsonl").read_text().splitlines()[1]),
    "nemo_gym": nemotron_rows()["function_calling"],
    "tau_bench": tau({"a": [1]}),
    "openai_chat": chat_row(),
}
ODD = [
    None,
    True,
    0,
    -1.5,
    10**30,
    "",
    "x",
    HALF,
    "<tool_call>",
    "{",
    [],
    [[]],
    [None],
    {},
    {"": None},
    {"a": {}},
    DEEP,
]


def mutated(row, draw):
    """A copy with one value somewhere replaced, removed or doubled."""
    row = copy.deepcopy(row)
    node = row
    while True:
        keys = list(node) if isinstance(node, dict) else range(len(node))
        key = draw.choice(keys)
        if isinstance(node[key], dict | list) and node[key] and draw.random() < 0.8:
            node = node[key]
            continue
        if draw.random() < 0.2:
            node.pop(key)
        elif isinstance(node, list) and draw.random() < 0.2:
            node.append(node[key])
        else:
            node[key] = draw.choice(ODD)
        return row


@pytest.mark.parametrize("format", SAMPLES)
def test_no_damage_to_a_row_stops_the_reading(tmp_path, format):
    draw = random.Random(0)
    rows = [mutated(SAMPLES[format], draw) for _ in range(400)]
    path = write_rows(tmp_path / "a.jsonl", rows)
    reader = TurnReader(TrajectoriesConfig(files=[path], format=format), 0)
    items = list(reader)
    assert reader.rows == 400 and 0 < reader.bad_rows < 400
    json.dumps([item.to_json() for item in items], ensure_ascii=False).encode()
    with pytest.raises(ValueError):  # every row of another format is a bad one, or one that this format reads as well
        other = TurnReader(TrajectoriesConfig(files=[path], format="atif" if format != "atif" else "sharegpt"), 0)
        list(other)
        other.check_bad_share(0.5)
