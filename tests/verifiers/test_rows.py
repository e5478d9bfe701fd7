import json

import pytest

from pivotrl.verifiers.base import VerifierConfig
from pivotrl.verifiers.rows import BadRow, RowReader, ScoreRow, output_items

CALL = {"type": "function_call", "name": "f", "arguments": '{"a": 1}'}
FUNCTION = {"name": "f", "arguments": '{"a": 1}'}
TOOL = {"type": "function", "name": "f", "parameters": {"type": "object"}, "strict": True, "description": None}


def read(tmp_path, *rows, run=None, parse=lambda text, tools: [{"type": "message", "content": text}]):
    path = tmp_path / "rows.jsonl"
    path.write_text("".join((row if isinstance(row, str) else json.dumps(row)) + "\n" for row in rows))
    return list(RowReader(path, run or VerifierConfig(), parse))


def one(tmp_path, **row):
    (found,) = read(tmp_path, {"expected_action": CALL, "response": [], **row})
    assert isinstance(found, ScoreRow), found
    return found


def reason(tmp_path, row):
    (found,) = read(tmp_path, row)
    assert isinstance(found, BadRow), found
    return found.rejected.reason


def test_a_row_becomes_an_attempt(tmp_path):
    request = {"input": [{"role": "user", "content": "Hi"}], "tools": [TOOL]}
    row = one(tmp_path, response=[CALL], responses_create_params=request, metadata={"harness": "x"})
    attempt = row.attempt
    assert (attempt.expert, attempt.items, attempt.text) == (CALL, [CALL], None)
    assert attempt.messages == [{"role": "user", "content": "Hi"}]
    assert attempt.tools == [
        {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}, "strict": True}}
    ]
    assert attempt.metadata == {"harness": "x"}


def test_openai_form_is_read_too(tmp_path):
    tools = [{"type": "function", "function": {"name": "g"}}]
    row = one(tmp_path, messages=[{"role": "user", "content": "Hi"}], tools=tools)
    assert row.attempt.tools == tools and row.attempt.messages[0]["content"] == "Hi"


def test_an_expected_answer_is_a_message(tmp_path):
    for row in ({"expected_answer": "42"}, {"metadata": {"expected_answer": "42"}}, {"expected_answer": None}):
        (found,) = read(tmp_path, {"metadata": {"expected_answer": "42"}, **row, "response": []})
        assert found.attempt.expert == {"type": "message", "content": "42"}
    (found,) = read(tmp_path, {"metadata": {"expected_action": CALL}, "response": []})
    assert found.attempt.expert == CALL


def test_a_call_without_arguments_has_none(tmp_path):
    row = one(tmp_path, expected_action={"type": "function_call", "name": "f"})
    assert row.attempt.expert["arguments"] == "{}"


def test_a_line_of_pivots_is_read(tmp_path):
    turn = {"id": "x:1/0", "messages": [{"role": "user", "content": "Hi"}], "tools": [], "expert": CALL}
    (row,) = read(tmp_path, {"turn": turn, "prompt_ids": [1], "response": [CALL]})
    assert row.id == "x:1/0" and row.attempt.expert == CALL and row.attempt.messages == turn["messages"]


def test_ids_keep_their_type_and_default_to_the_place(tmp_path):
    rows = [{"id": identity, "expected_action": CALL, "response": []} for identity in ("a", 7, 1.5)]
    found = read(tmp_path, *rows, "{", {"expected_action": CALL, "response": []})
    assert [row.id for row in found] == ["a", 7, 1.5, 3, 4]
    assert isinstance(found[3], BadRow) and found[3].rejected.row == "line 4"


def test_responses_are_read_in_every_form():
    parts = [{"type": "output_text", "text": "a"}, {"type": "output_text", "text": "b"}, 5]
    deep = []
    for _ in range(500):
        deep = [deep]
    found = output_items(
        [
            {"type": "reasoning", "summary": []},
            {"type": "message", "content": parts},
            {"type": "message", "content": []},
            {"type": "message", "content": [{"type": "refusal"}]},
            {"type": "message", "content": "not the assistant", "role": "user"},
            "text",
            None,
            {"type": "function_call", "name": "f", "arguments": deep},
            {},
        ]
    )
    assert found == [
        {"type": "reasoning", "summary": []},
        {"type": "message", "content": "a\nb"},
        {"type": "function_call", "name": "f"},
        {},
    ]


SAID = {"type": "message", "content": "ok"}


@pytest.mark.parametrize(
    "message, items",
    [
        ({"content": None, "tool_calls": [{"id": "1", "type": "function", "function": FUNCTION}]}, [CALL]),
        ({"content": "ok", "tool_calls": [{"function": FUNCTION}, {"function": FUNCTION}]}, [SAID, CALL, CALL]),
        ({"content": " ", "tool_calls": [{"function": {**FUNCTION, "arguments": {"a": 1}}}]}, [CALL]),
        ({"content": None, "function_call": FUNCTION}, [CALL]),
        ({"content": [{"type": "text", "text": "ok"}], "tool_calls": None}, [SAID]),
        ({"content": ""}, [{"type": "message", "content": ""}]),
        ({"content": None}, []),
        ({}, []),
        ({"content": 5, "tool_calls": 5}, []),
        ({"tool_calls": [5, {"function": "f"}, {"function": {}}]}, [{"type": "function_call"}] * 3),
        ({"type": "message", "content": "ok", "tool_calls": [{"function": FUNCTION}]}, None),
        ({"type": None, "content": "ok"}, None),
    ],
)
def test_a_chat_message_is_what_it_says_and_calls(tmp_path, message, items):
    message = {"role": "assistant", **message}
    expected = [message] if items is None else items
    assert one(tmp_path, response=[message]).attempt.items == expected
    assert one(tmp_path, response=[5, message, CALL]).attempt.items == [*expected, CALL]
    if items is not None:
        assert one(tmp_path, response=message).attempt.items == expected


def test_a_chat_messages_arguments_may_nest_at_will():
    deep = {}
    for _ in range(500):
        deep = {"a": deep}
    call = {"function": {"name": "f", "arguments": deep}}
    assert output_items([{"role": "assistant", "tool_calls": [call], "x": deep}]) == [
        {"type": "function_call", "name": "f"}
    ]


@pytest.mark.parametrize(
    "row, write",
    [
        ({"expected_action": CALL}, "--audit needs none"),
        ({"messages": [{"role": "user", "content": "Hi"}]}, "whole trajectories go to --audit --trajectories FILE"),
        ({"response": []}, "write the expert's action"),
    ],
)
def test_what_to_write_instead(tmp_path, row, write):
    (found,) = read(tmp_path, row)
    assert found.rejected.write.startswith(write) or found.rejected.write.endswith(write)


def test_a_response_object_is_its_output(tmp_path):
    assert one(tmp_path, response={"output": [CALL], "id": "resp_1"}).attempt.items == [CALL]


def test_text_is_parsed_where_there_is_no_response(tmp_path):
    (row,) = read(tmp_path, {"expected_action": CALL, "response": None, "text": "hello"})
    assert row.attempt.items == [{"type": "message", "content": "hello"}] and row.attempt.text == "hello"


@pytest.mark.parametrize(
    "item",
    [5, None, [], {"type": 3}, {"type": "message"}, {"type": "function_call", "name": [], "arguments": {"a": [1]}}],
)
def test_what_a_model_wrote_makes_no_row_bad(tmp_path, item):
    assert one(tmp_path, response=[item, {"type": "message", "content": "\ud800 \x00"}]).attempt.items


@pytest.mark.parametrize(
    "row, expected",
    [
        ("{", "malformed_json"),
        ("[1]", "malformed_json"),
        ({"response": []}, "no_expected_action"),
        ({"expected_action": "f", "response": []}, "bad_expected_action"),
        ({"expected_action": {**CALL, "arguments": "{"}, "response": []}, "malformed_arguments"),
        ({"expected_action": {**CALL, "arguments": {"a": 1}}, "response": []}, "not_text"),
        ({"expected_answer": 42, "response": []}, "not_text"),
        ({"expected_action": CALL}, "no_answer"),
        ({"expected_action": CALL, "response": "f()"}, "no_answer"),
        ({"expected_action": CALL, "response": "f()", "text": "x"}, "both_given"),
        ({"expected_action": CALL, "response": [], "text": ""}, "both_given"),
        ({"expected_action": CALL, "response": {"choices": []}}, "no_answer"),
        ({"expected_action": CALL, "text": 5}, "bad_text"),
        ({"expected_action": CALL, "response": [], "id": [1]}, "bad_id"),
        ({"expected_action": CALL, "response": [], "id": True}, "bad_id"),
        ('{"expected_answer": "x", "response": [], "id": NaN}', "bad_id"),
        ({"expected_action": CALL, "response": [], "params": [1]}, "bad_params"),
        ({"expected_action": CALL, "response": [], "metadata": 1}, "bad_metadata"),
        ({"expected_action": CALL, "response": [], "tools": [5]}, "bad_tools"),
        ({"expected_action": CALL, "response": [], "responses_create_params": {"input": [5]}}, "bad_input_item"),
        ({"expected_action": CALL, "response": [], "verifier": {"name": "magic"}}, "bad_verifier"),
        ({"expected_action": CALL, "response": [], "verifier": {"name": "os:system"}}, "bad_verifier"),
        ({"expected_answer": "\ud800", "response": []}, "lone_surrogate"),
        ('{"expected_answer": "x", "response": [], "a": ' + "[" * 200 + "]" * 200 + "}", "nested_too_deeply"),
        ('{"a": ' + "[" * 100_000, "malformed_json"),
    ],
)
def test_bad_rows_say_why(tmp_path, row, expected):
    assert reason(tmp_path, row) == expected


def test_a_row_chooses_a_verifier_of_the_table(tmp_path):
    chosen = {"name": "exact", "params": {"a": 1, "b": 2}}
    row = one(tmp_path, verifier=chosen, params={"b": 3})
    assert (row.config.name, row.config.params, row.params) == ("exact", {}, {"a": 1, "b": 3})


def test_the_threshold_of_terminal_rows(tmp_path):
    row = {"expected_answer": "{}", "response": [], "threshold": 0.5}
    (found,) = read(tmp_path, row, run=VerifierConfig(name="terminal"))
    assert found.params == {"threshold": 0.5}
    (found,) = read(tmp_path, {**row, "params": {"threshold": 0.7}}, run=VerifierConfig(name="terminal"))
    assert found.params == {"threshold": 0.7}
    for other in (VerifierConfig(name="exact"), VerifierConfig(name="terminal", preset="robust")):
        (found,) = read(tmp_path, row, run=other)
        assert found.params == {}


def test_a_json_array_is_read_as_rows(tmp_path):
    (tmp_path / "rows.json").write_text(json.dumps([{"expected_action": CALL, "response": []}, 5]))
    row, bad = RowReader(tmp_path / "rows.json", VerifierConfig(), None)
    assert isinstance(row, ScoreRow) and str(row.place) == "rows.json item 0"
    assert bad.rejected.row == "item 1" and bad.to_json()["id"] == 1
