import pytest

from pivotrl.verifiers.attempt import Attempt
from pivotrl.verifiers.base import VerifierConfig
from pivotrl.verifiers.registry import build_verifier


def call(name="f", arguments="{}"):
    return {"type": "function_call", "name": name, "arguments": arguments}


def batch(*names):
    return {"type": "function_call_batch", "calls": [call(name) for name in names]}


def calls(*names):
    return [call(name) for name in names]


def message(text="hello"):
    return {"type": "message", "content": text}


def verdict(expert, items, preset="nemo_gym", text=None, **params):
    verifier = build_verifier(VerifierConfig(name="name_only", preset=preset, params=params))
    return verifier.verify(Attempt(expert, items, text))


@pytest.mark.parametrize(
    "expert, items, right, reason",
    [
        (call("f", '{"a": 1}'), [call("f", "not JSON")], 1, "call_matches"),
        (call("f"), calls("F"), 0, "other_tool"),
        (call("f"), calls("f", "g", "g"), 1, "call_matches"),
        (call("f"), calls("g", "f"), 0, "other_tool"),
        (call("f"), [message(), call("f")], 1, "call_matches"),
        (call("f"), [message()], 0, "message_where_call_expected"),
        (call("f"), [], 0, "no_action"),
        (call("f"), [call(None)], 0, "other_tool"),
        (call("f"), [call(["f"])], 0, "other_tool"),
        (call("f"), [{"type": "function_call"}], 0, "other_tool"),
        (batch("f", "g"), calls("g", "f"), 1, "calls_match"),
        (batch("f", "g"), calls("g", "h", "f"), 1, "calls_match"),
        (batch("f", "g"), calls("f"), 0, "other_tool"),
        (batch("f", "f"), calls("f", "g"), 0, "other_tool"),
        (message(), [message("")], 1, "message_as_expected"),
        (message(), [message(), call("f")], 0, "call_where_message_expected"),
        (message(), None, 0, "no_action"),
    ],
)
def test_the_papers_verifier(expert, items, right, reason):
    found = verdict(expert, items)
    assert (found.reward, found.reason) == (right, reason)


@pytest.mark.parametrize(
    "expert, items, right, reason",
    [
        (call("f", '{"a": 1}'), [call("f", "not JSON")], 1, "call_matches"),
        (call("f"), calls("g"), 0, "other_tool"),
        (call("f"), calls("f", "g", "g"), 1 / 2, "number_of_calls"),
        (call("f"), calls("g", "f"), 2 / 3, "number_of_calls"),
        (call("f"), calls("f", "f"), 2 / 3, "number_of_calls"),
        (call("f"), calls("g", "h"), 0, "other_tool"),
        (call("f"), [call(["f"])], 0, "other_tool"),
        (batch("f", "g"), calls("g", "f"), 1, "calls_match"),
        (batch("f", "g"), calls("f"), 2 / 3, "number_of_calls"),
        (batch("f", "f"), calls("f", "g"), 1 / 2, "other_tool"),
        (call("f"), [message()], 0, "message_where_call_expected"),
        (message(), [message("  yes ")], 1, "message_as_expected"),
        (message(), [message(" \n\u200b")], 0, "empty_message"),
        (message(), [call("f")], 0, "call_where_message_expected"),
        (message(), [message("<tool_call>")], 0, "format"),
        (call("f"), [call("f"), message("and then")], 0, "format"),
        (message(), [], 0, "no_action"),
    ],
)
def test_robust_counts_and_reads_the_form(expert, items, right, reason):
    found = verdict(expert, items, "robust")
    assert (found.reward, found.reason) == (pytest.approx(right), reason)


def test_robust_parameters():
    assert verdict(call("f"), calls("f", "g"), "robust", count="strict").reward == 0
    assert verdict(batch("f", "g"), calls("g", "f"), "robust", count="strict").reward == 1
    thoughtless = '<tool_call>\n{"name": "f", "arguments": {}}\n</tool_call>'
    assert verdict(call("f"), calls("f"), "robust", thoughtless).reward == 1
    assert verdict(call("f"), calls("f"), "robust", thoughtless, thinking="required").reason == "format"
    assert verdict(call("f"), calls("f"), "robust", "hm</think>\n" + thoughtless, thinking="required").reward == 1
    with pytest.raises(ValueError, match=r"verifier\.params\.count"):
        verdict(call("f"), calls("f"), "nemo_gym", count="strict")
