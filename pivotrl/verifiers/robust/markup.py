"""The tags that model families write around tool calls, and where a block that they open ends. Linear scans.

Families: Hermes, Qwen, GLM (`<tool_call>`), Qwen3-Coder (`<function=`, `<parameter=`), Mistral (`[TOOL_CALLS]`), Kimi
K2 and DeepSeek (`<|tool_call_begin|>`, `<|tool_calls_section_begin|>`), MiniMax (`<minimax:tool_call>`, `<invoke`),
Nemotron (`<TOOLCALL>`), InternLM (`<|action_start|>`), Llama 3 (`<|python_tag|>`); as vLLM's tool parsers know them.
"""

import json
from typing import NamedTuple


class Block(NamedTuple):
    """One call's block: the offset behind its closing tag, and the calls that it holds."""

    end: int
    calls: int


_BAR, _LINE = "\uff5c", "\u2581"  # DeepSeek's full-width bar and low line

CALLS = {
    "<tool_call>": "</tool_call>",
    "<TOOLCALL>": "</TOOLCALL>",
    "<function=": "</function>",
    "<invoke name=": "</invoke>",
    "<|tool_call_begin|>": "<|tool_call_end|>",
    f"<{_BAR}tool{_LINE}call{_LINE}begin{_BAR}>": f"<{_BAR}tool{_LINE}call{_LINE}end{_BAR}>",
    "<|action_start|>": "<|action_end|>",
}
"""A call's opening tag -> its closing one."""
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
"""Tokens that end a completion, where the decoder kept them."""

OPENERS = (*CALLS, *SECTIONS, *OPEN_ENDED)
CLOSERS = tuple(dict.fromkeys((*CALLS.values(), *SECTIONS.values(), *INNER.values())))

_DECODER = json.JSONDecoder()


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
    try:
        value, end = _DECODER.raw_decode(text, start)
    except (ValueError, RecursionError):
        return None
    return end, len(value) if isinstance(value, list) else 1


def skip_space(text: str, start: int) -> int:
    """The offset of the first character from `start` on that is no white space."""
    size = len(text)
    while start < size and text[start].isspace():
        start += 1
    return start


def block_at(text: str, start: int, tag: str) -> Block | str:
    """The block that the call's opening `tag` at `start` opens, or the fault as a phrase.

    JSON inside the block is read as JSON: what looks like a tag inside its strings is none.
    """
    body = start + len(tag)
    if tag in OPEN_ENDED:
        return _open_ended(text, body, tag)
    if tag == "<function=":
        return _function(text, body)
    close, calls, inside = CALLS[tag], 1, body
    first = skip_space(text, body)
    if tag == "<tool_call>" and text.startswith("<function=", first):
        function = _function(text, first + len("<function="))
        if isinstance(function, str):
            return function
        inside = function.end
        if not text.startswith(close, skip_space(text, inside)):
            return f"{tag} is not closed behind its function"
    else:
        brace = _first_brace(text, body, close)
        if brace >= 0 and (found := json_end(text, brace)) is not None:
            inside, calls = found
            calls = calls if tag == "<TOOLCALL>" else 1
    end = text.find(close, inside)
    if end < 0:
        return f"{tag} is not closed"
    if (nested := first_of(OPENERS, text, inside, end)) is not None:
        return f"{nested[1]} inside {tag}"
    for inner, inner_close in INNER.items():
        if text.count(inner, inside, end) != text.count(inner_close, inside, end) and inner != "<parameter=":
            return f"{inner} is not closed"
    return Block(end + len(close), calls)


def _first_brace(text: str, start: int, close: str) -> int:
    """The first bracket of JSON in front of the closing tag; -1 where there is none."""
    end = text.find(close, start)
    end = len(text) if end < 0 else end
    places = [place for place in (text.find("{", start, end), text.find("[", start, end)) if place >= 0]
    return min(places, default=-1)


def _function(text: str, start: int) -> Block | str:
    """`<function=NAME>` with `<parameter=KEY>` VALUE `</parameter>` inside, or with JSON; `start` is behind the `=`."""
    head = text.find(">", start)
    if head < 0 or "<" in text[start:head][:200]:
        return "<function= has no end"
    place = skip_space(text, head + 1)
    if (found := json_end(text, place)) is not None and text.startswith(("{", "["), place):
        place = skip_space(text, found[0])
    while text.startswith("<parameter=", place):
        end = text.find("</parameter>", place)
        if end < 0:
            return "<parameter= is not closed"
        inner = first_of(("<parameter=", "</function>", "</tool_call>"), text, place + 1, end)
        if inner is not None:
            return f"<parameter= is not closed before {inner[1]}"
        place = skip_space(text, end + len("</parameter>"))
    if not text.startswith("</function>", place):
        return "<function= is not closed, or holds what is no parameter"
    return Block(place + len("</function>"), 1)


def _open_ended(text: str, body: int, tag: str) -> Block | str:
    """A mark, then a list of calls, or `name{...}` (Mistral) or one object; several with `;` or the mark between."""
    brace = _first_brace(text, body, tag)
    found = json_end(text, brace) if brace >= 0 else None
    if found is None:
        return f"no JSON behind {tag}"
    return Block(found[0], found[1])
