import json

import pytest

from pivotrl.verifiers.attempt import Attempt
from pivotrl.verifiers.base import VerifierConfig
from pivotrl.verifiers.registry import build_verifier

PEER_REASONS = {
    "A tool call that matches the expected tool call was found": "call_matches",
    "A tool-call batch that matches the expected tool calls was found": "calls_match",
    "The number of tool calls in a batch is different than expected": "number_of_calls",
    "An argument value in a tool call is different than the expected value": "other_value",
    "No tool call was found when one was expected": "message_where_call_expected",
    "The tool in a tool call is not the expected tool": "other_tool",
    "A list in an argument value in a tool call has a different length than the expected list": "other_list_length",
    "The type of an argument value in a tool call is different than the expected type": "other_type",
    "An error occurred when decoding the arguments string in a tool call as a JSON object": "arguments_not_json",
    "The keys in an object in an argument value in a tool call are different than the keys in the expected object": (
        "other_keys"
    ),
    "A tool call was executed when a chat message was expected": "call_where_message_expected",
    "A chat message was found as expected": "message_as_expected",
    "no_action_found": "no_action",
}


def call(arguments, name="f"):
    text = arguments if isinstance(arguments, str) else json.dumps(arguments)
    return {"type": "function_call", "name": name, "arguments": text}


def message(text="hello"):
    return {"type": "message", "content": text}


def reward(expected, items, **params):
    return build_verifier(VerifierConfig(params=params)).verify(Attempt(expected, items)).reward


def golden_rows(shared_data):
    with open(shared_data / "verifier_golden" / "tool_call.jsonl") as file:
        return [json.loads(line) for line in file]


def test_golden_verdicts_all_agree(shared_data):
    verifier = build_verifier(VerifierConfig())
    rows = golden_rows(shared_data)
    found = [verifier.verify(Attempt(row["expected_action"], row["response"]), row["params"]) for row in rows]
    assert len(rows) == 240
    assert [verdict.reward for verdict in found] == [row["reward"] for row in rows]
    assert [verdict.reason for verdict in found] == [PEER_REASONS[row["peer_category"]] for row in rows]


@pytest.mark.parametrize(
    "expected, actual, right",
    [
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}, 1),
        ({"a": "A-1"}, {"a": "a-1"}, 0),
        ({"a": "A-1"}, {"a": "A-1 "}, 0),
        ({"a": 2}, {"a": 2.0}, 0),
        ({"a": 1.0}, {"a": 1}, 0),
        ({"a": 1}, {"a": True}, 1),
        ({"a": True}, {"a": 1}, 0),
        ({"a": None}, {"a": None}, 1),
        ({"a": ""}, {"a": ""}, 1),
        ({"a": {}}, {"a": {}}, 1),
        ({"a": 1}, {"a": 1, "b": 2}, 0),
        ({"a": 1, "b": 2}, {"a": 1}, 0),
        ({"a": [1, 2]}, {"a": [2, 1]}, 0),
        ({"a": [1, 2]}, {"a": [1]}, 0),
        ({"a": 0.3}, {"a": 0.1 + 0.2}, 1),
        ({"a": 0.3}, {"a": 0.300002}, 0),
        ({"s": "please cancel my order today"}, {"s": "cancel the order today please"}, 1),
        ({"s": "please cancel it"}, {"s": "book two flights"}, 0),
        ({"s": "cancel the order now"}, {"s": "do not cancel the order"}, 1),
        ({"s": "pwd"}, {"s": "pwd && ls"}, 0),
        ({}, "[]", 0),
        ({"a": 1.0}, '{"a": NaN}', 0),
        ({"a": 1}, '{"a": 1', 0),
    ],
)
def test_values_compare_as_in_nemo_gym(expected, actual, right):
    assert reward(call(expected), [call(actual)]) == right


def test_similarity_is_half_of_dice():
    words = {"s": "one two three"}
    assert reward(call(words), [call(words)], word_count_similarity_threshold=0.5) == 1
    assert reward(call(words), [call(words)], word_count_similarity_threshold=0.51) == 0
    other = {"s": "four five six"}
    assert reward(call(words), [call(other)], word_count_similarity_threshold=0.0) == 1
    twice = {"s": "one one"}  # counted twice on one side only: 1 / (2 + 3)
    assert reward(call(twice), [call(words)], word_count_similarity_threshold=0.2) == 1
    assert reward(call(twice), [call(words)], word_count_similarity_threshold=0.21) == 0


def test_messages_and_calls():
    assert reward(message(), [message("anything at all")]) == 1
    assert reward(message(), [message("")]) == 1
    assert reward(message(), [message(), call({})]) == 0
    assert reward(message(), []) == 0
    assert reward(message(), [{"type": "reasoning"}]) == 0
    assert reward(call({}), [message()]) == 0
    assert reward(call({}), [message("I will"), call({})]) == 1
    assert reward(call({}), [call({}, "F")]) == 0


def test_surplus_calls_are_free_unless_counted():
    junk = [call({"x": index}, "g") for index in range(20)]
    assert reward(call({}), [*junk, call({})]) == 1
    assert reward(call({}), [*junk, call({})], parallel_tool_call_rewarding=True) == 0
    two = {"type": "function_call_batch", "calls": [call({"a": 1}), call({"a": 2})]}
    assert reward(two, [call({"a": 1})]) == 0
    assert reward(two, [call({"a": 2}), call({"a": 1})]) == 1
    counted = {"parallel_tool_call_rewarding": True, "allow_subset": True, "allow_superset": True}
    assert reward(two, [call({"a": 1})], **counted, parallel_tool_call_reward_mode="f1") == pytest.approx(2 / 3)
    one_right = [call({"a": 1}), call({"a": 9})]
    assert reward(two, one_right, **counted, parallel_tool_call_reward_mode="fractional") == 0.5
    assert reward(two, one_right, **counted) == 0


def test_matching_is_maximum_not_first_fit():
    broad, narrow = call({"s": "red green blue black"}), call({"s": "red green"})
    two = {"type": "function_call_batch", "calls": [broad, narrow]}
    # At 0.25, `broad` fits both actual calls (4/8 and 2/6), `narrow` only the second (2/4 against 2/6).
    assert reward(two, [narrow, broad], word_count_similarity_threshold=0.3) == 1
    assert reward(two, [narrow, narrow], word_count_similarity_threshold=0.34) == 0


def test_params_of_a_row_override_the_runs():
    verifier = build_verifier(VerifierConfig(params={"word_count_similarity_threshold": 0.5}))
    expected, actual = call({"s": "one two three"}), [call({"s": "one two four"})]
    assert verifier.verify(Attempt(expected, actual)).reward == 0
    assert verifier.verify(Attempt(expected, actual), {"word_count_similarity_threshold": 0.3}).reward == 1
    assert verifier.verify(Attempt(expected, actual)).reward == 0


@pytest.mark.parametrize(
    "config, says",
    [
        (VerifierConfig(name="magic"), "verifier.name: 'magic' is not a verifier; write one of tool_call, "),
        (VerifierConfig(params={"treshold": 1}), "verifier.params.treshold: .*word_count_similarity_threshold"),
        (VerifierConfig(params={"word_count_similarity_threshold": "x"}), "word_count_similarity_threshold: "),
        (VerifierConfig(name="exact", params={"a": 1}), "verifier.params.a: .*none"),
    ],
)
def test_a_wrong_setting_names_the_key_and_the_choices(config, says):
    with pytest.raises(ValueError, match=says):
        build_verifier(config)
