"""The tags that model families write around tool calls, and where a block that they open ends. Linear scans.

Families: Hermes, Qwen, GLM (`<tool_call>`), Qwen3-Coder (`<function=`, `<parameter=`), Mistral (`[TOOL_CALLS]`), Kimi
K2 and DeepSeek (`<|tool_call_begin|>`, `<|tool_calls_section_begin|>`), MiniMax (`<minimax:tool_call>`, `<invoke`),
Nemotron (`<TOOLCALL>`), Jamba and Hunyuan (`<tool_calls>`), InternLM (`<|action_start|>`), Llama 3
(`<|python_tag|>`); as vLLM's tool parsers know them.
"""

import json
import re
from typing import NamedTuple

from pivotrl.verifiers.arguments import LONGEST_ARGUMENTS


class Block(NamedTuple):
    """One call's block: the offset behind its closing tag, and the calls that it holds."""

    end: int
    calls: int


_BAR, _LINE = "\uff5c", "\u2581"  # DeepSeek's full-width bar and low line

CALLS = {
    "<tool_call>": "</tool_call>",
    "<TOOLCALL>": "</TOOLCALL>",
    "<tool_calls>": "</tool_calls>",
    "<function=": "</function>",
    "<invoke name=": "</invoke>",
    "<|tool_call_begin|>": "<|tool_call_end|>",
    f"<{_BAR}tool{_LINE}call{_LINE}begin{_BAR}>": f"<{_BAR}tool{_LINE}call{_LINE}end{_BAR}>",
    "<|action_start|>": "<|action_end|>",
}
"""A call's opening tag -> its closing one."""
LISTS = ("<TOOLCALL>", "<tool_calls>")
"""Tags whose JSON is a list of calls."""
SECTIONS = {
    "<minimax:tool_call>": "</minimax:tool_call>",
    "<function_calls>": "</function_calls>",
    "<|tool_calls_section_begin|>": "<|tool_calls_section_end|>",
    f"<{_BAR}tool{_LINE}calls{_LINE}begin{_BAR}>": f"<{_BAR}tool{_LINE}calls{_LINE}end{_BAR}>",
}
"""Tags around all calls."""
OPEN_ENDED = ("[TOOL_CALLS]", "<|python_tag|>")
"""Marks in front of calls that nothing closes but the end of their JSON."""
INNER = {
    "<parameter=": "</parameter>",
    "<parameter name=": "</parameter>",
    "<arg_key>": "</arg_key>",
    "<arg_value>": "</arg_value>",
}
"""Tags inside a call."""
END_TOKENS = ("<|im_end|>", "<|endoftext|>", "<|eot_id|>", "<|eom_id|>", "<|end|>", "</s>", "<|return|>", "<|call|>")
END_TOKENS += ("<|end_of_text|>", "<end_of_turn>", f"<{_BAR}end{_LINE}of{_LINE}sentence{_BAR}>")
"""Tokens that end a completion, where the decoder kept them."""

OPENERS = (*CALLS, *SECTIONS, *OPEN_ENDED)
CLOSERS = tuple(dict.fromkeys((*CALLS.values(), *SECTIONS.values(), *INNER.values())))

MOST_ARGUMENTS = 1000
"""Arguments of one call that are written in tags; more is a fault."""
LONGEST_VALUE = 2 * LONGEST_ARGUMENTS
"""Characters of JSON that are read as such."""

MOST_CALLS = 1000
"""Calls that a completion may write; more is a fault."""

THINK, THOUGHT = "<think>", "</think>"

_DECODER = json.JSONDecoder()
_SPACE = re.compile(r"\s*")


def first_of(tags: tuple[str, ...], text: str, start: int = 0, end: int | None = None) -> tuple[int, str] | None:
    """The first place of any of the tags, and the tag."""
    end = len(text) if end is None else end
    best: tuple[int, str] | None = None
    for tag in tags:
        place = text.find(tag, start, end)
        if place >= 0:
            best, end = (place, tag), min(len(text), place + len(tag) - 1)
    return best


def json_end(text: str, start: int) -> tuple[int, int] | None:
    """Where the JSON value that begins at `start` ends, and how many calls it is (a list: its length); None where
    there is none."""
    try:  # in a slice: the error that says where a text is no JSON counts all lines before it
        value, size = _DECODER.raw_decode(text[start : start + LONGEST_VALUE])
    except (ValueError, RecursionError):
        return None
    return start + size, len(value) if isinstance(value, list) else 1


def skip_space(text: str, start: int) -> int:
    """The offset of the first character from `start` on that is no white space."""
    return _SPACE.match(text, start).end()


def block_at(text: str, start: int, tag: str) -> Block | str:
    """The block that the call's opening `tag` at `start` opens, or the fault as a phrase.

    JSON and values inside the block are read as such: what looks like a tag inside them is none.
    """
    body = start + len(tag)
    if tag in OPEN_ENDED:
        return _open_ended(text, body, tag)
    if tag == "<function=":
        return _function(text, body)
    first = skip_space(text, body)
    if tag == "<tool_call>" and text.startswith("<function=", first):
        function = _function(text, first + len("<function="))
        if isinstance(function, str):
            return function
        end = skip_space(text, function.end)
        return Block(end + len(CALLS[tag]), 1) if text.startswith(CALLS[tag], end) else f"{tag} is not closed"
    close = CALLS[tag]
    end = text.find(close, body)
    if end < 0:
        return f"{tag} is not closed"
    inner = first_of(tuple(INNER), text, body, end)
    value = _first_json(text, body, end if inner is None else inner[0])
    if value is not None:
        before, after, calls = value
        end = text.find(close, after)
        if end < 0:
            return f"{tag} is not closed"
        outside = ((body, before), (after, end))
    elif inner is not None:
        return _tagged(text, inner[0], tag)
    else:
        outside, calls = ((body, end),), 1
    for left, right in outside:
        if (nested := first_of((*OPENERS, THINK, THOUGHT), text, left, right)) is not None:
            return f"{nested[1]} inside {tag}"
    return Block(end + len(close), calls if tag in LISTS else 1)


def _first_json(text: str, start: int, end: int) -> tuple[int, int, int] | None:
    """The first JSON object or list that begins in front of `end`: its place, the offset behind it, and its calls."""
    for place in sorted((text.find("{", start, end), text.find("[", start, end))):
        if place >= 0 and (found := json_end(text, place)) is not None:
            return place, *found
    return None


def _tagged(text: str, place: int, tag: str) -> Block | str:
    """A block whose arguments stand in tags of their own (`<arg_key>`, `<parameter name=`); `place` is the first."""
    for _ in range(MOST_ARGUMENTS):
        if (name := next((name for name in INNER if text.startswith(name, place)), None)) is None:
            break
        closed = text.find(INNER[name], place)
        if closed < 0 or first_of((*INNER, *OPENERS), text, place + 1, closed) is not None:
            return f"{name} is not closed"
        place = skip_space(text, closed + len(INNER[name]))
    close = CALLS[tag]
    return Block(place + len(close), 1) if text.startswith(close, place) else f"{tag} is not closed"


def _function(text: str, start: int) -> Block | str:
    """`<function=NAME>` with `<parameter=KEY>` VALUE `</parameter>` inside, or with JSON; `start` is behind the `=`."""
    head = text.find(">", start)
    if head < 0 or "<" in text[start : min(head, start + 200)]:
        return "<function= has no end"
    place = skip_space(text, head + 1)
    if text.startswith(("{", "["), place) and (found := json_end(text, place)) is not None:
        place = skip_space(text, found[0])
    for _ in range(MOST_ARGUMENTS):
        if not text.startswith("<parameter=", place):
            break
        end = text.find("</parameter>", place)
        if end < 0:
            return "<parameter= is not closed"
        if (inner := first_of(("<parameter=", "</function>", "</tool_call>"), text, place + 1, end)) is not None:
            return f"<parameter= is not closed in front of {inner[1]}"
        place = skip_space(text, end + len("</parameter>"))
    if not text.startswith("</function>", place):
        return "<function= is not closed, or holds what is no parameter"
    return Block(place + len("</function>"), 1)


def _open_ended(text: str, body: int, tag: str) -> Block | str:
    """A mark, then a list of calls, or `name{...}` (Mistral), or objects with `;` between (Llama)."""
    end = text.find(tag, body)
    value = _first_json(text, body, len(text) if end < 0 else end)
    if value is None:
        return f"no JSON behind {tag}"
    _, place, calls = value
    while calls < MOST_CALLS and text.startswith((";", ","), following := skip_space(text, place)):
        if (found := json_end(text, skip_space(text, following + 1))) is None:
            break
        place, calls = found[0], calls + found[1]
    return Block(place, calls)
