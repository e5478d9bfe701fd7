import json
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pivotrl.verifiers.attempt import Attempt
from pivotrl.verifiers.robust.wellformed import LONGEST_TEXT, format_fault, is_blank, spoken

CALL = {"type": "function_call", "name": "f", "arguments": '{"a": 1}'}
MESSAGE = {"type": "message", "content": "Hello."}
BODY = '{"name": "f", "arguments": {"a": 1}}'
ONE = f"<tool_call>\n{BODY}\n</tool_call>"
CODER = "<tool_call>\n<function=f>\n<parameter=a>\n1\n</parameter>\n</function>\n</tool_call>"
BAR, LINE = "\uff5c", "\u2581"


def fault(text, items=None, expert=None, thinking="auto"):
    found = format_fault(Attempt(expert or CALL, [CALL] if items is None else items, text), thinking)
    assert found is None or found.reason == "format"
    return None if found is None else found.detail


@pytest.mark.parametrize(
    "text, thinking, says",
    [
        (ONE, "auto", None),
        ("<think>a</think>" + ONE, "auto", None),
        ("\n <think>\n</think>\n" + ONE, "auto", None),
        ("a thought that the prompt opened</think>" + ONE, "auto", None),
        ("<think>a" + ONE, "auto", "<think> is not closed"),
        ("<think>a</think></think>" + ONE, "auto", "</think> out of place"),
        ("<think>a</think>b<think>" + ONE, "auto", "<think> out of place"),
        ("<think>a<think>b</think>" + ONE, "auto", "<think> more than once"),
        ("well <think>a</think>" + ONE, "auto", "text before <think>"),
        (ONE + "</think>", "auto", "a call inside the thought"),
        (ONE, "required", "no </think>"),
        ("<think>a</think>" + ONE, "required", None),
        ("a</think>" + ONE, "required", None),
        ("<think>a</think>" + ONE, "forbidden", "it thinks"),
        ("a</think>" + ONE, "forbidden", "it thinks"),
        (ONE, "forbidden", None),
        ("<think>maybe <tool_call> or {x} </tool_call></think>" + ONE, "auto", None),
        (f"the format is {ONE}</think>" + ONE, "auto", None),
    ],
)
def test_thoughts(text, thinking, says):
    found = fault(text, thinking=thinking)
    assert found == says


@pytest.mark.parametrize(
    "text, calls",
    [
        (ONE, 1),
        (ONE + "\n" + ONE, 2),
        (ONE + ONE + "\n\n", 2),
        ("Let me look.\n" + ONE, 1),
        (ONE + "<|im_end|>", 1),
        (ONE + "\n<|im_end|>\n<|endoftext|>", 1),
        ('<tool_call>{"name": "f", "arguments": {"a": "<tool_call>"}}</tool_call>', 1),
        ('<tool_call>{"name": "f", "arguments": {"a": "</tool_call> <think> </think>"}}</tool_call>', 1),
        ('<tool_call>{"name": "f", "arguments": "{\\"a\\": \\"</tool_call>\\"}"}</tool_call>', 1),
        (CODER, 1),
        (CODER + CODER, 2),
        (CODER.replace("1\n", "if a < 1: print('<tool_call>{')\n"), 1),
        ("<function=f>\n</function>", 1),
        ('<function=f>{"a": "</function>"}</function>', 1),
        ("<tool_call>f\n<arg_key>a</arg_key>\n<arg_value>1</arg_value>\n</tool_call>", 1),
        ("<tool_call>f\n<arg_key>a</arg_key>\n<arg_value>{</arg_value>\n</tool_call>" + ONE, 2),
        ('[TOOL_CALLS][{"name": "f", "arguments": {}}, {"name": "g", "arguments": {}}]', 2),
        ('[TOOL_CALLS]f{"a": "]"}[TOOL_CALLS]g[ARGS]{"a": 1}</s>', 2),
        ('<|python_tag|>{"name": "f", "parameters": {}}; {"name": "g", "parameters": {}}<|eom_id|>', 2),
        ('<TOOLCALL>[{"name": "f"}, {"name": "g"}]</TOOLCALL>', 2),
        (
            "<|tool_calls_section_begin|><|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>"
            '{"a": "<|tool_call_end|>"}<|tool_call_end|><|tool_calls_section_end|>',
            1,
        ),
        (
            f"<{BAR}tool{LINE}calls{LINE}begin{BAR}><{BAR}tool{LINE}call{LINE}begin{BAR}>function<{BAR}tool{LINE}sep{BAR}>"
            f'f\n```json\n{{"a": 1}}\n```<{BAR}tool{LINE}call{LINE}end{BAR}><{BAR}tool{LINE}calls{LINE}end{BAR}>',
            1,
        ),
        (
            '<minimax:tool_call><invoke name="f"><parameter name="a">{}</parameter></invoke>\n</minimax:tool_call>',
            1,
        ),
        ('<|action_start|><|plugin|>{"name": "f", "parameters": {}}<|action_end|>', 1),
        (f"<tool_calls>[{BODY}, {BODY}]</tool_calls>", 2),
        (ONE + f"<{BAR}end{LINE}of{LINE}sentence{BAR}>", 1),
    ],
)
def test_calls_of_every_family_are_counted(text, calls):
    assert fault(text, [CALL] * calls) is None
    assert fault(text, [CALL] * (calls - 1)) == f"{calls} calls in the text, of which the parser found {calls - 1}"
    assert fault("<think>x</think>" + text, [CALL] * calls, thinking="required") is None


@pytest.mark.parametrize(
    "text",
    [
        f"<tool_call>{BODY}",
        f"<tool_call>{BODY}<tool_call>",
        f"{BODY}</tool_call>",
        f"<tool_call>{BODY}</tool_call></tool_call>",
        f"<tool_call><tool_call>{BODY}</tool_call></tool_call>",
        f"<tool_call>{BODY}{ONE}</tool_call>",
        f"<tool_call>{BODY}<tool_call></tool_call>",
        f"<tool_call>{BODY}<think></tool_call>",
        f"{ONE} and then {ONE}",
        f"{ONE}\nDone.",
        f"{ONE}\n{MESSAGE['content']}<|im_end|>",
        f"{ONE}{{}}",
        f"{ONE}<tool_call>",
        f"</tool_call>{ONE}",
        f"see </parameter> {ONE}",
        '<tool_call>{"a": 1, <tool_call>}</tool_call>',
        CODER.replace("</parameter>", ""),
        CODER.replace("</function>", ""),
        CODER.replace("\n</tool_call>", ""),
        CODER.replace("<parameter=a>", "<parameter=a>1<parameter=b>"),
        CODER.replace("<function=f>", "<function=f"),
        CODER.replace("<parameter=a>", "stray <parameter=a>"),
        "<function=f>",
        "<tool_call>f\n<arg_key>a</arg_key>\n<arg_value>1\n</tool_call>",
        "<tool_call>f\n<arg_key>a\n<arg_value>1</arg_value>\n</tool_call>",
        "[TOOL_CALLS]",
        '[TOOL_CALLS][{"name": "f"',
        '[TOOL_CALLS][{"name": "f"}] and more',
        '<TOOLCALL>[{"name": "f"}]',
        '<|tool_calls_section_begin|><|tool_call_begin|>f{"a": 1}<|tool_call_end|>',
        '<|tool_call_begin|>f{"a": 1}',
        '<minimax:tool_call><invoke name="f"></invoke>',
        '<minimax:tool_call><invoke name="f"><parameter name="a">1</invoke></minimax:tool_call>',
        "<minimax:tool_call><minimax:tool_call>",
        f"<tool_calls>[{BODY}]",
        f"<tool_calls>[{BODY}]</tool_calls> and more",
    ],
)
def test_what_is_not_well_formed(text):
    assert fault(text, [CALL] * 2) is not None
    assert fault("<think>x</think>" + text, [CALL] * 2) is not None


def test_a_call_that_the_parser_lost_is_a_fault():
    text = ONE + "<tool_call>{broken</tool_call>"
    assert fault(text, [CALL, CALL]) is None
    assert fault(text, [CALL]) == "2 calls in the text, of which the parser found 1"
    assert fault(text, [{"type": "message", "content": text}]) == "2 calls in the text, of which the parser found 0"


@pytest.mark.parametrize(
    "content, well",
    [
        ("Hello.", True),
        ("2 < 3 and [1] > 0", True),
        ("", True),
        ("<think>a</think>Hello.", True),
        ("Hello <tool_call>", False),
        ("Hello <tool_call", False),
        ("Hello </tool_call>", False),
        ("</TOOL_CALL>", False),
        ("<think>a", False),
        ("Hello </think", False),
        ("hm <think>a</think>Hello.", False),
        ("<function=f>", False),
        ("[TOOL_CALLS]", False),
        ("<|tool_call_begin|>", False),
        (BODY, False),
        ('{"name": "f", "parameters": {"a": 1', False),
        ('{"name": "f", "age": 7}', True),
    ],
)
def test_messages(content, well):
    item = {"type": "message", "content": content}
    assert (fault(None, [item], MESSAGE) is None) == well
    assert (fault(content, [item], MESSAGE) is None) == well
    assert (fault(content + "<|im_end|>", [item], MESSAGE) is None) == well
    assert fault(None, [item], {"type": "message", "content": content}) is None or "think" in content


def test_order_of_items():
    assert fault(None, [MESSAGE, CALL, CALL]) is None
    assert fault(None, [CALL, MESSAGE]) == "text behind a call"
    assert fault(None, [CALL, MESSAGE, CALL]) == "text behind a call"
    assert fault(None, [CALL, {"type": "message", "content": " \u200b\n"}]) is None
    assert fault(None, [MESSAGE, {"type": "message", "content": ""}]) is None
    assert fault(None, [MESSAGE, MESSAGE]) == fault("Hello. Hello.", [MESSAGE, MESSAGE]) == "several messages"
    assert fault(ONE, [CALL, MESSAGE]) == "text behind a call"
    assert fault(None, [{"type": "message", "content": "<think>x</think>"}, CALL], thinking="forbidden") == "it thinks"


def test_what_nobody_can_see():
    assert is_blank("") and is_blank(" \n\t\u3000\u200b\ufeff\u2060\u00ad\u2800\u3164\x00\x7f\ud800\ue000\U000e0041")
    assert not any(map(is_blank, ["a", ".", "\u200b1", "\u4e2d", "\U0001f44d", "-" * 10]))
    assert spoken("<think>x</think> Hi <|im_end|>\n") == " Hi"
    assert spoken("Hi") == "Hi"


HOSTILE = {
    "openers": "<tool_call>" * 200_000,
    "closers": "</tool_call>" * 200_000,
    "blocks": ONE * 50_000,
    "open strings": '<tool_call>{"' * 100_000,
    "odd quotes": '<tool_call>[",",","</tool_call>' * 50_000,
    "deep": "<tool_call>" + "[" * 1_000_000,
    "parameters": "<tool_call><function=f>" + "<parameter=a>1</parameter>" * 100_000,
    "keys": "<tool_call>f" + "<arg_key>a</arg_key>" * 100_000 + "</tool_call>",
    "hidden close": "<tool_call>f<arg_key></tool_call></arg_key>" + "<arg_key>a</arg_key>" * 100_000,
    "many blocks of keys": "<tool_call>f<arg_key>a</arg_key></tool_call>" * 100_000,
    "mistral": "[TOOL_CALLS][1]" * 100_000,
    "mistral list": "[TOOL_CALLS]" + "[1]," * 300_000,
    "spaces": ONE + " " * 4_000_000 + "x",
    "zero width": "\u200b" * 4_000_000,
    "thoughts": "<think>" * 500_000 + "</think>",
    "sections": "<|tool_calls_section_begin|>" * 100_000,
    "end tokens": ONE + "<|im_end|>" * 3000,
    "angle": "<" * 4_000_000,
    "surrogates": "\ud800" * 1_000_000,
    "long": "a" * (LONGEST_TEXT + 1),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_hostile_text_is_judged_soon(case):
    text = HOSTILE[case]
    start = time.process_time()
    for items in ([CALL], [{"type": "message", "content": text}]):
        for given_text in (text, None):
            format_fault(Attempt(MESSAGE, items, given_text))
    assert time.process_time() - start < 4


TAGS = ["<tool_call>", "</tool_call>", "<think>", "</think>", "<function=f>", "</function>", "<parameter=a>"]
TAGS += ["</parameter>", "[TOOL_CALLS]", "<|tool_call_begin|>", "<|tool_call_end|>", "<arg_key>", "</arg_key>"]
TAGS += ["{", "}", '"', '{"a": 1}', " ", "\n", "x", "<", ">", "<|im_end|>", ONE, CODER]
PIECES = st.sampled_from(TAGS)


@settings(max_examples=200, deadline=None)
@given(st.lists(PIECES, max_size=12).map("".join) | st.text(max_size=50), st.integers(0, 2))
def test_any_text_gets_an_answer(text, calls):
    fault(text, [CALL] * calls or [{"type": "message", "content": text}])
    fault(None, [{"type": "message", "content": text}, *[CALL] * calls])


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.dictionaries(st.text(), st.text() | PIECES, max_size=3), min_size=1, max_size=4), st.text(max_size=9)
)
def test_what_a_template_renders_is_well_formed(arguments, thought):
    blocks = [json.dumps({"name": "f", "arguments": value}, ensure_ascii=False) for value in arguments]
    text = f"<think>{thought}</think>\n" + "\n".join(f"<tool_call>\n{block}\n</tool_call>" for block in blocks)
    assert fault(text, [CALL] * len(blocks), thinking="required") is None
    assert fault(text[: -len("</tool_call>")], [CALL] * len(blocks)) is not None
    assert fault(text + "x", [CALL] * len(blocks)) is not None


@pytest.mark.parametrize("text", [5, b"x", ["<think>"]])
def test_text_that_is_none(text):
    assert fault(text) is None
