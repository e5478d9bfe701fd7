import json

from pivotrl.verifiers.attempt import Attempt
from pivotrl.verifiers.base import VerifierConfig
from pivotrl.verifiers.registry import build_verifier

EXACT = build_verifier(VerifierConfig(name="exact"))


def call(arguments, name="f"):
    return {"type": "function_call", "name": name, "arguments": arguments}


def test_calls_match_as_strings_after_one_rendering():
    expert = call('{"a":1,"b":"x y"}')
    assert EXACT.verify(Attempt(expert, [call('{"a": 1, "b": "x y"}')])).reward == 1
    assert EXACT.verify(Attempt(expert, [call('{"b": "x y", "a": 1}')])).reward == 0
    assert EXACT.verify(Attempt(expert, [call('{"a": 1.0, "b": "x y"}')])).reward == 0
    assert EXACT.verify(Attempt(expert, [call('{"a": 1, "b": "x  y"}')])).reward == 0
    assert EXACT.verify(Attempt(expert, [call('{"a": 1, "b": "x y"}', "F")])).reward == 0
    assert EXACT.verify(Attempt(expert, [call('{"a": 1, "b": "x y"}')] * 2)).reward == 0
    assert EXACT.verify(Attempt(expert, [call('{"a": 1, "b": "x y"')])).reward == 0


def test_arguments_too_long_to_parse_are_equal_only_as_strings():
    long, other = (json.dumps({"a": letter * 1_000_001}) for letter in "xy")
    assert EXACT.verify(Attempt(call(long), [call(other)])).reward == 0
    assert EXACT.verify(Attempt(call(long), [call(None)])).reward == 0
    assert EXACT.verify(Attempt(call(long), [call(long)])).reward == 1


def test_messages_match_as_strings():
    expert = {"type": "message", "content": "\nSure."}
    assert EXACT.verify(Attempt(expert, [{"type": "message", "content": "Sure."}])).reward == 1
    assert EXACT.verify(Attempt(expert, [{"type": "message", "content": "sure."}])).reward == 0
    assert EXACT.verify(Attempt(expert, [call("{}")])).reward == 0
    assert EXACT.verify(Attempt(expert, [])).reason == "no_action"
    assert EXACT.verify(Attempt(call("{}"), [{"type": "message", "content": "{}"}])).reward == 0


def test_batches_match_in_order():
    one, two = call('{"a": 1}'), call('{"a": 2}')
    expert = {"type": "function_call_batch", "calls": [one, two]}
    assert EXACT.verify(Attempt(expert, [one, two])).reward == 1
    assert EXACT.verify(Attempt(expert, [two, one])).reward == 0


def test_what_a_parser_would_lose_counts():
    for expert, actual in [
        ('{"a": 1.0}', '{"a": 1.00}'), ('{"a": 10.0}', '{"a": 1e1}'),
        ('{"a": {"number": "1"}}', '{"a": 1}'), ('{"a": {"object": {"b": 1}}}', '{"a": {"b": 1}}'),
    ]:  # fmt: skip
        assert EXACT.verify(Attempt(call(expert), [call(actual)])).reward == 0
        assert EXACT.verify(Attempt(call(actual), [call(actual.replace(" ", ""))])).reward == 1
    digits = "9" * 5000
    assert EXACT.verify(Attempt(call(f'{{"a":{digits}}}'), [call(f'{{"a": {digits}}}')])).reward == 1


def test_no_message_beside_the_right_one():
    expert, more = {"type": "message", "content": "Sure."}, {"type": "message", "content": "Or not."}
    assert EXACT.verify(Attempt(expert, [expert, more])).reward == 0
    assert EXACT.verify(Attempt(expert, [{"type": "message", "content": " "}, expert])).reward == 1
