import json

import pytest

from pivotrl.trajectories.config import TrajectoriesConfig
from pivotrl.trajectories.faults import RowFault
from pivotrl.trajectories.messages import normalise
from pivotrl.trajectories.readers.detect import detect_format
from pivotrl.trajectories.readers.nemo_gym import chat_messages
from pivotrl.trajectories.records import Rejected, Turn
from pivotrl.trajectories.tools import infer_tools, load_tools
from pivotrl.trajectories.turns import TurnReader
from tests.trajectories.rows import call, chat_row, write_rows


def turns_of(path, **settings):
    items = list(TurnReader(TrajectoriesConfig(files=[path], **settings), 0))
    assert not any(isinstance(item, Rejected) for item in items), items
    return [item for item in items if isinstance(item, Turn)]


def tau_row(task=3, trial=1, reward=1.0):
    return {"task_id": task, "trial": trial, "reward": reward, "traj": chat_row()["messages"]}


def test_detection_looks_at_the_content(tmp_path):
    pivot = {"responses_create_params": {"input": []}, "expected_action": {}}
    assert detect_format(write_rows(tmp_path / "a", ["", "{bad", {"x": 1}, chat_row()])) == "openai_chat"
    assert detect_format(write_rows(tmp_path / "b", [json.dumps([tau_row()], indent=1)])) == "tau_bench"
    assert detect_format(write_rows(tmp_path / "c", [tau_row()])) == "tau_bench"
    assert detect_format(write_rows(tmp_path / "d", [pivot])) == "nemo_gym"


def test_tau_bench_array_and_lines_read_alike(tmp_path):
    rows = [tau_row(trial=0), tau_row(trial=1), tau_row(task=4, trial=0, reward=0.0)]
    lines = turns_of(write_rows(tmp_path / "x.jsonl", rows))
    array = turns_of(write_rows(tmp_path / "x.json", [json.dumps(rows, indent=2)]))
    assert (
        [turn.id for turn in lines]
        == [turn.id for turn in array]
        == [f"x:{name}/{turn}" for name in ("3-0", "3-1", "4-0") for turn in (0, 1)]
    )
    assert lines[0].messages == array[0].messages and array[2].source == "x.json item 1"


def test_trials_of_one_task_stay_on_one_side_of_the_split(tmp_path):
    rows = [tau_row(task, trial) for task in range(60) for trial in range(4)]
    splits: dict[str, set[str]] = {}
    for turn in turns_of(write_rows(tmp_path / "x.jsonl", rows), heldout_share=0.5):
        splits.setdefault(turn.trajectory_id.split("-")[0], set()).add(turn.split)
    assert all(len(found) == 1 for found in splits.values())
    assert len(set().union(*splits.values())) == 2


def test_tools_are_inferred_from_the_calls_or_given(tmp_path):
    path = write_rows(tmp_path / "x.jsonl", [tau_row()])
    assert [tool["function"]["name"] for tool in turns_of(path)[0].tools] == ["get_order"]
    given = write_rows(tmp_path / "tools.json", ['[{"type": "function", "name": "f", "strict": null}]'])
    assert turns_of(path, tools=given)[0].tools == [{"type": "function", "function": {"name": "f"}}]
    with pytest.raises(ValueError, match=r"trajectories\.tools: .*bad_tools: tools\[0\] is 7"):
        load_tools(write_rows(tmp_path / "bad.json", ["[7]"]))


def test_inferred_schemas_hold_names_types_and_what_is_always_given():
    def conversation(arguments):
        return [{"role": "assistant", "content": "", "tool_calls": [call("f", json.dumps(arguments))]}]

    broken = [{"role": "assistant", "content": "", "tool_calls": [call("g", "{")]}]
    tools = infer_tools(
        [
            conversation({"a": 1, "b": [{"x": "s"}], "e": True}),
            conversation({"a": 2.5, "c": None, "b": [{"x": "s", "y": 1}]}),
            broken,
        ]
    )
    item = {"type": "object", "properties": {"x": {"type": "string"}, "y": {"type": "integer"}}, "required": ["x"]}
    assert tools == [
        {
            "type": "function",
            "function": {
                "name": "f",
                "parameters": {
                    "type": "object",
                    "properties": {
                        "a": {"type": "number"},
                        "b": {"type": "array", "items": item},
                        "e": {"type": "boolean"},
                        "c": {"type": "null"},
                    },
                    "required": ["a", "b"],
                },
            },
        }
    ]


def test_normalised_messages_have_one_form():
    found = normalise(
        [
            {"role": "developer", "content": [{"type": "text", "text": "a"}, "b"]},
            {"role": "assistant", "function_call": {"name": "f", "arguments": {"x": 1}}},
            {"role": "function", "name": "f", "content": "1"},
        ]
    )
    function = {"name": "f", "arguments": '{"x": 1}'}
    assert found == [
        {"role": "system", "content": "ab"},
        {
            "role": "assistant",
            "content": "",
            "tool_calls": [{"id": "call_1_0", "type": "function", "function": function}],
        },
        {"role": "tool", "content": "1", "tool_call_id": "call_1_0", "name": "f"},
    ]


@pytest.mark.parametrize(
    "messages, reason",
    [
        ([], "no_messages"),
        ("hi", "no_messages"),
        ([{"role": "user", "content": 7}], "not_text"),
        ([{"role": "assistant", "tool_calls": [{"function": {"name": ""}}]}], "bad_tool_calls"),
        ([{"role": "assistant", "tool_calls": 5}], "bad_tool_calls"),
        ([{"role": "assistant", "tool_calls": [call(arguments=7)]}], "not_text"),
        (
            [{"role": "assistant", "tool_calls": [call()]}, {"role": "tool", "tool_call_id": "c9"}],
            "tool_message_without_call",
        ),
        ([{"role": "tool", "content": "x"}], "tool_message_without_call"),
    ],
)
def test_faults_of_messages(messages, reason):
    with pytest.raises(RowFault) as caught:
        normalise(messages)
    assert caught.value.reason == reason


def test_responses_items_become_chat_messages():
    reasoning = {"type": "reasoning", "summary": [{"type": "summary_text", "text": "hmm"}]}
    request = {
        "instructions": "Be brief.",
        "input": [
            {"role": "user", "content": "hi"},
            reasoning,
            {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "looking"}]},
            {"type": "function_call", "name": "f", "arguments": "{}", "call_id": "1"},
            {"type": "function_call", "name": "g", "arguments": "{}", "call_id": "2"},
            {"type": "function_call_output", "call_id": "1", "output": "one"},
            {"type": "function_call_output", "call_id": "2", "output": "two"},
            {"role": "assistant", "content": "done"},
            {"role": "user", "content": "more"},
            reasoning,
        ],
    }
    messages = normalise(chat_messages(request))
    assert [message["role"] for message in messages] == [
        "system",
        "user",
        "assistant",
        "tool",
        "tool",
        "assistant",
        "user",
    ]
    assert messages[2]["reasoning_content"] == "hmm" and messages[2]["content"] == "looking"
    assert [item["function"]["name"] for item in messages[2]["tool_calls"]] == ["f", "g"]
    assert "reasoning_content" not in messages[5]
    with pytest.raises(RowFault, match="bad_input_item"):
        chat_messages({"input": [{"type": "web_search_call"}]})


def test_pivot_rows_are_one_turn_each_and_rows_of_one_trajectory_stay_together(tmp_path):
    def row(depth, action):
        history = [{"role": "user", "content": "hi"}, *[{"role": "assistant", "content": "x"}] * depth]
        return {
            "trajectory_id": 9,
            "responses_create_params": {"input": history, "tools": []},
            "expected_action": action,
        }

    single = {"type": "function_call", "name": "f", "arguments": "{}"}
    rows = [
        row(0, {"type": "message", "content": "yes"}),
        row(1, single),
        row(1, {"type": "function_call_batch", "calls": [single, single]}),
    ]
    turns = turns_of(write_rows(tmp_path / "p.jsonl", rows), heldout_share=0.5)
    assert [turn.id for turn in turns] == ["p:9/0", "p:9/1", "p:9/1~2"]
    assert len({turn.split for turn in turns}) == 1 and {turn.trajectory_id for turn in turns} == {"p:9"}
    assert [turn.turn_index for turn in turns] == [0, 1, 1] and turns[2].expert["calls"] == [single, single]


@pytest.mark.parametrize(
    "action, reason",
    [
        ({"type": "function_call", "name": "f", "arguments": "{"}, "malformed_arguments"),
        ({"type": "function_call_batch", "calls": []}, "bad_expected_action"),
        ({"type": "refusal"}, "bad_expected_action"),
        (None, "bad_expected_action"),
        ({"type": "message"}, "not_text"),
    ],
)
def test_a_bad_expected_action_is_found_when_the_row_is_read(tmp_path, action, reason):
    row = {"responses_create_params": {"input": "hi"}, "expected_action": action}
    (item,) = TurnReader(TrajectoriesConfig(files=[write_rows(tmp_path / "p.jsonl", [row])]), 0)
    assert isinstance(item, Rejected) and item.reason == reason


def test_terminal_rows_name_their_own_verifier(tmp_path):
    row = {"responses_create_params": {"input": "hi"}, "expected_answer": "{}", "uuid": "u1"}
    (turn,) = turns_of(write_rows(tmp_path / "p.jsonl", [row]))
    assert turn.verifier == {"name": "terminal"} and turn.expert == {"type": "message", "content": "{}"}
