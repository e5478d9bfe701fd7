import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pivotrl.verifiers.attempt import Attempt
from pivotrl.verifiers.base import VerifierConfig
from pivotrl.verifiers.json_value import compare
from pivotrl.verifiers.registry import build_verifier


@pytest.mark.parametrize(
    "expected, actual, says",
    [
        ('{"a": 1, "b": [2]}', '{"b":[2.0],"a":1}', None),
        ('{"a": "\\u00e9"}', '{"a": "\u00e9"}', None),
        ('{"a": 1}', {"a": 1}, None),
        ({"a": 1}, '{"a": 1}', None),
        ('{"a": 1}', '{"a": true}', "other_type"),
        ('{"a": true}', '{"a": 1}', "other_type"),
        ('{"a": 1}', '{"a": "1"}', "other_type"),
        ('{"a": null}', "{}", "other_keys"),
        ('{"a": 1}', '{"a": 1, "b": 2}', "other_keys"),
        ("[1, 2]", "[2, 1]", "other_value"),
        ("[1, 2]", "[1]", "other_list_length"),
        ('{"a": "x"}', '{"a": "x "}', "other_value"),
        ('{"a": 1}', '{"a": 2, "a": 1}', "duplicate_key"),
        ('{"a": 1}', '{"a": 1', "not_json"),
        ('{"a": 1}', "", "not_json"),
        ('{"a": NaN}', '{"a": NaN}', None),
        ('{"a": 1.0}', '{"a": NaN}', "other_value"),
        ("0.3", "0.30000000000000004", None),
        ("100000000000000000000", "100000000000000000001", "other_value"),
        ("not json", "not json", None),
        ("not json", "not  json", "other_value"),
        ("not json", 7, "other_value"),
    ],
)
def test_values_compare(expected, actual, says):
    found = compare(expected, actual)
    assert (found.reason if found else None) == says


def verdict(expected, actual):
    items = [{"type": "message", "content": actual}]
    return build_verifier(VerifierConfig(name="json")).verify(Attempt({"type": "message", "content": expected}, items))


def test_messages_may_fence_their_json():
    assert verdict('{"a": 1}', 'Here it is:\n```json\n{"a": 1.0}\n```\n').reward == 1
    assert verdict('```\n{"a": 1}\n```', ' {"a": 1}').reward == 1
    assert verdict('{"a": 1}', '```json\n{"a": 1}\n```\n```json\n{"a": 2}\n```').reason == "not_json"
    assert verdict('{"a": 1}', 'so {"a": 1}').reason == "not_json"
    assert verdict('{"a": 1}', '<think>{"a": 2}</think>{"a": 1}').reward == 1


def test_an_argument_that_holds_json_as_text_or_as_a_value():
    def call(value):
        return {"type": "function_call", "name": "f", "arguments": json.dumps({"payload": value, "id": "A-1"})}

    verifier = build_verifier(VerifierConfig(name="json"))
    assert verifier.verify(Attempt(call('{"a": 1, "b": 2}'), [call({"b": 2, "a": 1})])).reward == 1
    assert verifier.verify(Attempt(call({"a": 1}), [call({"a": 2})])).reason == "other_value"


@pytest.mark.parametrize("text", ["[" * 100_000, '{"a":' * 900 + "1" + "}" * 900, "1" * 100_000, '"' + "a" * 2_000_000])
def test_hostile_text_gets_an_answer(text):
    assert compare('{"a": 1}', text) is not None
    deep = json.loads("[" * 900 + "]" * 900)
    assert compare(deep, deep) is None or compare(deep, deep).reason == "too_long"


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=12,
)


@settings(max_examples=150, deadline=None)
@given(JSON, JSON)
def test_a_value_is_itself_in_any_writing_and_both_ways(one, two):
    text = json.dumps(one, indent=1, sort_keys=True, ensure_ascii=False)
    assert compare(json.dumps(one), text) is None
    left, right = json.dumps(one), json.dumps(two)
    assert (compare(left, right) is None) == (compare(right, left) is None)
    assert one == two or one != one or compare(left, right) is not None or "NaN" in left
