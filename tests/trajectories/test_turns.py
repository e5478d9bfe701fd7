import json

import pytest

from pivotrl.trajectories.config import TrajectoriesConfig
from pivotrl.trajectories.ids import split_of
from pivotrl.trajectories.records import Rejected, Turn
from pivotrl.trajectories.turns import TurnReader
from tests.trajectories.rows import TOOLS, call, chat_row, write_rows


def read(path, **settings):
    reader = TurnReader(TrajectoriesConfig(files=[path], **settings), seed=0)
    items = list(reader)
    return reader, [x for x in items if isinstance(x, Turn)], [x for x in items if isinstance(x, Rejected)]


def test_every_assistant_turn_is_a_candidate_with_the_history_before_it(tmp_path):
    reader, turns, rejected = read(write_rows(tmp_path / "a.jsonl", [chat_row()]))
    assert [turn.id for turn in turns] == ["a:t1/0", "a:t1/1"]
    assert [len(turn.messages) for turn in turns] == [2, 4]
    assert turns[0].expert == {"type": "function_call", "name": "get_order", "arguments": '{"order_id": "A-1"}'}
    assert turns[1].expert == {"type": "message", "content": "It is on its way."}
    assert turns[0].tools == TOOLS and {turn.n_turns for turn in turns} == {2}
    assert turns[1].source == "a.jsonl line 1"
    assert (reader.rows, reader.trajectories, reader.turns, rejected) == (1, 1, 2, [])


def test_several_calls_are_a_batch_and_text_beside_calls_is_not_the_action(tmp_path):
    row = chat_row()
    row["messages"][2] = {"role": "assistant", "content": "Let me look.", "tool_calls": [call(), call(identity="c2")]}
    _, turns, _ = read(write_rows(tmp_path / "a.jsonl", [row]))
    one = {"type": "function_call", "name": "get_order", "arguments": '{"order_id": "A-1"}'}
    assert turns[0].expert == {"type": "function_call_batch", "calls": [one, one]}
    assert turns[1].messages[2]["content"] == "Let me look."


def test_a_bad_row_is_reported_and_loses_nothing_else(tmp_path):
    no_turn = {"messages": [{"role": "user", "content": "hi"}]}
    orphan = {
        "messages": [{"role": "tool", "tool_call_id": "x", "content": "1"}, {"role": "assistant", "content": "ok"}]
    }
    bad_role = {"messages": [{"role": "robot", "content": "hi"}]}
    surrogate = '{"messages": [{"role": "assistant", "content": "\\ud800"}]}'
    image = {"messages": [{"role": "user", "content": [{"type": "image_url"}]}, {"role": "assistant", "content": "ok"}]}
    rows = [chat_row("good1"), "{broken", no_turn, orphan, bad_role, surrogate, image, "[1]", "", chat_row("good2")]
    reader, turns, rejected = read(write_rows(tmp_path / "a.jsonl", rows))
    assert [turn.trajectory_id for turn in turns] == ["a:good1"] * 2 + ["a:good2"] * 2
    assert [(item.row, item.reason) for item in rejected] == [
        ("line 2", "malformed_json"),
        ("line 3", "no_assistant_turn"),
        ("line 4 message 0", "tool_message_without_call"),
        ("line 5 message 0", "bad_role"),
        ("line 6 message 0", "lone_surrogate"),
        ("line 7 message 0", "content_not_text"),
        ("line 8", "malformed_json"),
    ]
    assert all(item.found and item.write and item.file == "a.jsonl" for item in rejected)
    assert (reader.rows, reader.bad_rows, sum(reader.rejected.values())) == (9, 7, 7)
    json.dumps([item.to_json() for item in rejected]).encode("ascii")


@pytest.mark.parametrize("arguments", ['{"order_id": ', "[1]", '"A-1"', "[" * 100_000, "1" * 5000, "null"])
def test_malformed_arguments_reject_their_turn_only(tmp_path, arguments):
    row = chat_row()
    row["messages"][2]["tool_calls"] = [call(arguments=arguments)]
    reader, turns, rejected = read(write_rows(tmp_path / "a.jsonl", [row]))
    assert [turn.id for turn in turns] == ["a:t1/1"]
    assert [(item.reason, item.id, item.row) for item in rejected] == [
        ("malformed_arguments", "a:t1/0", "line 1 message 2")
    ]
    assert (reader.bad_rows, reader.turns) == (1, 2)


def test_an_assistant_message_that_does_nothing_is_rejected(tmp_path):
    row = chat_row()
    row["messages"][4]["content"] = " \n"
    _, turns, rejected = read(write_rows(tmp_path / "a.jsonl", [row]))
    assert len(turns) == 1 and rejected[0].reason == "empty_assistant_turn"


def test_ids_are_distinct_and_the_same_in_every_pass(tmp_path):
    path = write_rows(tmp_path / "a.jsonl", [chat_row("t"), chat_row("t~2"), chat_row("t"), chat_row("t")])
    _, turns, _ = read(path)
    ids = [turn.id for turn in turns]
    assert len(set(ids)) == 8 and len({turn.trajectory_id for turn in turns}) == 4
    assert ids == [turn.id for turn in read(path)[1]]


def test_min_reward_keeps_experts_and_asks_for_rewards(tmp_path):
    rows = [chat_row("a", reward=1.0), chat_row("b", reward=0.5), chat_row("c")]
    reader, turns, rejected = read(write_rows(tmp_path / "a.jsonl", rows), min_reward=1)
    assert {turn.trajectory_id for turn in turns} == {"a:a"}
    assert dict(reader.filtered) == {"below_min_reward": 1}
    assert [item.reason for item in rejected] == ["no_reward"]


def test_split_is_by_trajectory_and_stable():
    names = [f"t{index}" for index in range(4000)]
    splits = [split_of(name, 3, 0.25) for name in names]
    assert abs(splits.count("heldout") / len(names) - 0.25) < 0.03
    assert splits[:100] == [split_of(name, 3, 0.25) for name in names[:100]]
    assert splits != [split_of(name, 4, 0.25) for name in names]
    assert split_of("t7", 3, 0.0) == "train"
    assert [split_of(name, 0, 0.5) for name in ("a", "b", "c", "d")] == ["heldout", "heldout", "heldout", "train"]


def test_turns_of_one_trajectory_share_a_split(tmp_path):
    path = write_rows(tmp_path / "a.jsonl", [chat_row(f"t{index}") for index in range(200)])
    _, turns, _ = read(path, heldout_share=0.5)
    by_trajectory: dict[str, set[str]] = {}
    for turn in turns:
        by_trajectory.setdefault(turn.trajectory_id, set()).add(turn.split)
    assert all(len(splits) == 1 for splits in by_trajectory.values())
    assert {next(iter(splits)) for splits in by_trajectory.values()} == {"train", "heldout"}


def test_too_many_bad_rows_stop_with_the_reasons(tmp_path):
    reader, _, _ = read(write_rows(tmp_path / "a.jsonl", [chat_row(), "{", "{"]))
    reader.check_bad_share(0.7)
    with pytest.raises(ValueError, match=r"2 of 3 rows are bad \(66.7%: malformed_json 2\)"):
        reader.check_bad_share(0.5)


def test_files_that_cannot_be_used_name_the_remedy(tmp_path):
    with pytest.raises(ValueError, match="cannot be read"):
        read(str(tmp_path / "missing.jsonl"))
    with pytest.raises(ValueError, match="a folder; name the files in it"):
        read(str(tmp_path))
    with pytest.raises(ValueError, match="format not recognised"):
        read(write_rows(tmp_path / "b.jsonl", ['{"a": 1}']))
    with pytest.raises(ValueError, match=r"trajectories\.files"):
        list(TurnReader(TrajectoriesConfig(), 0))
    empty = tmp_path / "empty.jsonl"
    empty.touch()
    with pytest.raises(ValueError, match="an empty file"):
        read(str(empty))
