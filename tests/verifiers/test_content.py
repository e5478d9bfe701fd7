"""The base of content verifiers, through one that compares by case-folded text."""

import json

import pytest

from pivotrl.verifiers.attempt import Attempt
from pivotrl.verifiers.base import Difference
from pivotrl.verifiers.comparators import KINDS, comparator
from pivotrl.verifiers.content import ContentVerifier, fenced_block


class Folded(ContentVerifier):
    ARGUMENTS = ("command", "cmd")
    FENCED = True

    def compare(self, expected, actual, settings, attempt):
        if isinstance(actual, str) and expected.casefold() == actual.casefold():
            return None
        return Difference("other_value", "not alike")


def call(arguments, name="run"):
    return {"type": "function_call", "name": name, "arguments": json.dumps(arguments)}


def message(text):
    return {"type": "message", "content": text}


def verdict(expert, items, text=None, tools=(), **params):
    return Folded(params).verify(Attempt(expert, items, text, list(tools)))


LS = call({"command": "ls", "n": 2})


@pytest.mark.parametrize(
    "items, reason",
    [
        ([call({"n": 2.0, "command": "LS"})], "call_matches"),
        ([call({"command": "LS", "n": 3})], "other_value"),
        ([call({"command": "pwd", "n": 2})], "other_value"),
        ([call({"command": ["ls"], "n": 2})], "other_value"),
        ([call({"command": "ls"})], "missing_argument"),
        ([call({"n": 2})], "missing_argument"),
        ([call({"command": "ls", "n": 2, "x": 1})], "unknown_argument"),
        ([call({"command": "ls", "n": 2}, "Run")], "other_tool"),
        ([LS, LS], "number_of_calls"),
        ([message("ls")], "message_where_call_expected"),
        ([message("let me see"), LS], "call_matches"),
        ([LS, message("done")], "format"),
        ([], "no_action"),
        ([{"type": "function_call", "name": "run", "arguments": "{"}], "arguments_not_json"),
        (
            [{"type": "function_call", "name": "run", "arguments": '{"command": "LS", "command": "ls", "n": 2}'}],
            "duplicate_key",
        ),
        ([{"type": "function_call", "name": "run"}], "arguments_not_json"),
    ],
)
def test_calls(items, reason):
    found = verdict(LS, items)
    assert (found.reason, found.reward) == (reason, float(reason == "call_matches"))


def test_several_calls_in_any_order():
    both = {"type": "function_call_batch", "calls": [call({"command": "a"}), call({"command": "b"})]}
    assert verdict(both, [call({"command": "B"}), call({"command": "A"})]).reason == "calls_match"
    assert verdict(both, [call({"command": "A"}), call({"command": "A"})]).reason == "other_value"
    assert verdict(both, [call({"command": "A"}), call({"command": "C"})]).reason == "other_value"
    assert verdict(both, [call({"command": "A"})]).reason == "number_of_calls"


def test_messages_and_fenced_blocks():
    assert verdict(message("ls"), [message("LS")]).reason == "message_as_expected"
    assert verdict(message("ls"), [message("Run this:\n```sh\nLS\n```")]).reward == 1
    assert verdict(message("```\nls\n```"), [message("LS")]).reward == 1
    assert verdict(message("ls"), [message("```\nls\n```\n```\nls\n```")]).reward == 0
    assert verdict(message("ls"), [message("\u200b \n")]).reason == "empty_message"
    assert verdict(message("ls"), [LS]).reason == "call_where_message_expected"
    assert verdict(message("ls"), [message("ls <tool_call>")]).reason == "format"
    assert verdict(message("ls"), [message("<think>pwd</think>\nls")]).reward == 1
    assert verdict(message("ls"), [message("ls")], text="<think>hm ls").reason == "format"
    assert verdict(message("ls"), [message("ls")], text="ls", thinking="required").reason == "format"


def test_which_argument_is_the_content():
    verifier, settings = Folded({}), Folded.PARAMS()
    assert verifier.argument_of({"cmd": "a", "command": "b"}, settings) == "command"
    assert verifier.argument_of({"n": 1, "line": "a"}, settings) == "line"
    assert verifier.argument_of({"p": "a", "q": "b"}, settings) is None
    assert verdict(call({"p": "a", "q": "b"}), [call({"p": "A", "q": "b"})]).reward == 0
    assert verdict(call({"p": "a", "q": "b"}), [call({"p": "A", "q": "b"})], argument="p").reward == 1


def test_the_schema_judges_the_other_arguments():
    parameters = {"properties": {"command": {"type": "string"}, "n": {"type": "integer", "default": 2}}}
    tool = {"type": "function", "function": {"name": "run", "parameters": parameters}}
    assert verdict(LS, [call({"command": "LS"})], tools=[tool]).reward == 1


@pytest.mark.parametrize(
    "text, block",
    [
        ("```\na\n```", "a"),
        ("x\n~~~py\na\n\nb\n~~~\ny", "a\n\nb"),
        ("````\n```\na\n```\n````", "```\na\n```"),
        ("```\na", None),
        ("a", None),
        ("```\na\n```\n```\nb\n```", None),
        ("use ```a``` here", None),
        ("```a``` here", None),
        ("```\n```", ""),
    ],
)
def test_fenced_blocks(text, block):
    assert fenced_block(text) == block


def test_parameters_are_checked():
    with pytest.raises(ValueError, match=r"verifier\.params.argumnt: .*argument, thinking"):
        Folded({"argumnt": "x"})
    with pytest.raises(ValueError, match="not a kind of argument; write one of text, number"):
        comparator("txt")


EXAMPLES = {
    "text": ("cancel the order now", "please cancel the order now", "do not cancel the order now"),
    "number": ("1,000", 1000, "it is 1000"),
    "json": ('{"a": 1}', {"a": 1.0}, {"a": 2}),
    "shell": ("ls -l -a", "ls -la", "ls -l"),
    "search_query": ("  Blue   lamp ", "blue lamp", "red lamp"),
    "url": ("HTTP://Example.com/a", "http://example.com/a", "http://example.com/b"),
    "sql": ("select a from t", "SELECT a  FROM t", "select b from t"),
    "python": ("x = 1", "x=1  # one", "x = 2"),
    "identifier": ("A-1", " A-1 ", "a-1"),
    "exact": ("A-1", "A-1", "A-1 "),
}


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_has_a_comparator(kind):
    expected, same, other = EXAMPLES[kind]
    compare = comparator(kind)
    assert compare(expected, expected) is None
    assert compare(expected, same) is None
    assert isinstance(compare(expected, other), Difference)
    for hostile in (None, 7, [], {"a": []}, "\ud800", float("nan"), True):
        assert isinstance(compare(expected, hostile), Difference)
