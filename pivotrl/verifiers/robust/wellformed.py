"""Is a completion well formed: its thinking closed once, its calls closed, and nothing between or behind them?

A parser of tool calls forgives much (an unclosed `<tool_call>`, text between calls, a malformed call among good ones);
a policy that is rewarded through one learns what it forgives. So the completion itself is looked at, and where only its
items are known, their order and the messages' text.
"""

import re
from typing import Any, Literal
from unicodedata import category

from pivotrl.verifiers.action import split_items
from pivotrl.verifiers.attempt import Attempt
from pivotrl.verifiers.base import Difference
from pivotrl.verifiers.robust.markup import (
    CLOSERS,
    END_TOKENS,
    INNER,
    MOST_CALLS,
    OPENERS,
    SECTIONS,
    THINK,
    THOUGHT,
    block_at,
    first_of,
    json_end,
    skip_space,
)

Thinking = Literal["auto", "required", "forbidden"]

LONGEST_TEXT = 5_000_000
"""Characters of a completion that are looked at; more than any that did not run away."""

_HALF_TAGS = ("<tool_call", "</tool_call", "tool_call>", "<function=", "</function", "<parameter=", "</parameter>")
_HALF_TAGS += ("[tool_calls]", "<|tool_call", "<toolcall", "</toolcall", "<think", "</think", "<invoke", "</invoke")
_HALF_TAGS += ("[/tool_calls]", "[tool_results]", "<tool_response", "<tool_use", "<function_call", "functools[")
_HALF_TAGS += ("<|im_start|>", "<|start|>", "<|channel|>", "<|message|>", "<|start_header_id|>", "<start_of_turn>")
_HALF_TAGS += tuple(tag.lower() for tag in (*OPENERS, *CLOSERS) if tag.startswith(("<|", "<\uff5c", "<minimax")))
_ARGUMENTS = re.compile('"(?:arguments|parameters)"')
_NAMED = re.compile(r"(\[?)([\w.-]{1,200})\(|<([\w.-]{1,200})>")
"""`name(`, `[name(` and `<name>`: calls without a mark of their own, where a tool has the name."""
_MARKUP = re.compile("</?[A-Za-z][^<>]{0,200}>")
_SPOKEN = re.compile(r"[^\W_]")
_PICTURES = 1000
"""Characters of a message without letters and digits in which pictures are looked for."""
_INVISIBLE = re.compile(
    "[\\s\x00-\x1f\x7f-\xa0\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f"
    "\u2800\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
    "\ud800-\udfff\ue000-\uf8ff]*"
)


def is_blank(text: str) -> bool:
    """Whether nothing can be seen: white space, zero-width and control characters, blank letters, unpaired or private
    code points only."""
    return _INVISIBLE.fullmatch(text) is not None


def says_nothing(text: str) -> bool:
    """Whether a message is blank, or nothing but markup and punctuation (`**`, `<br>`, `---`). A picture says
    something."""
    bare = _MARKUP.sub("", text) if "<" in text else text
    if _SPOKEN.search(bare):
        return is_blank(bare)
    return not any(category(character) == "So" for character in bare[:_PICTURES])


def spoken(message: str) -> str:
    """A message's text without a thought in front of it, and without the tokens that end a completion."""
    place = message.find(THOUGHT)
    if place >= 0:
        message = message[place + len(THOUGHT) :]
    return _without_end_tokens(message)


def format_fault(attempt: Attempt, thinking: Thinking = "auto") -> Difference | None:
    """Why the completion is not well formed (reason `format`, or `too_long`); None where it is.

    Args:
        attempt: its items are judged, and its `text` where that is known.
        thinking: `auto`: where there is a thought it is closed once, and begins the completion; `required`: there is
            one; `forbidden`: there is none. A completion may begin inside a thought that its prompt opened.
    """
    text = attempt.text
    fault = _fault_of_text(attempt, text, thinking) if isinstance(text, str) else None
    return fault or _fault_of_items(attempt, thinking)


def _fault_of_text(attempt: Attempt, text: str, thinking: Thinking) -> Difference | None:
    """Judge a completion as it was written, and what the parser made of it."""
    if len(text) > LONGEST_TEXT:
        return Difference("too_long", f"{len(text)} characters, more than {LONGEST_TEXT}")
    start = _end_of_thought(text, thinking)
    if isinstance(start, Difference):
        return start
    calls = _scan_calls(text, start)
    if isinstance(calls, Difference):
        return calls
    parsed, _ = split_items(attempt.items)
    if calls > len(parsed):
        return _format(f"{calls} calls in the text, of which the parser found {len(parsed)}")
    if len(parsed) > calls and first_of(OPENERS, text, 0, start) is not None:
        return _format("a call inside the thought")
    return None if parsed else _fault_of_message(_without_end_tokens(text[start:]), attempt)


def _format(detail: str) -> Difference:
    return Difference("format", detail)


def _end_of_thought(text: str, thinking: Thinking) -> int | Difference:
    """The offset behind the thought, 0 where there is none; or the fault."""
    close = text.find(THOUGHT)
    first_call = first_of(OPENERS, text)
    if close >= 0 and first_call is not None and first_call[0] < close and _is_inside_call(text, first_call, close):
        close = -1
    if close < 0:
        if thinking == "required":
            return _format("no </think>")
        opened = text.find(THINK)
        if opened >= 0 and (first_call is None or opened < first_call[0]):
            return _format("<think> is not closed")
        return 0
    if thinking == "forbidden":
        return _format("it thinks")
    before = text[:close]
    if before.count(THINK) > 1:
        return _format("<think> more than once")
    opened = before.find(THINK)
    if opened > 0 and not before[:opened].isspace():
        return _format("text before <think>")
    return close + len(THOUGHT)


def _is_inside_call(text: str, call: tuple[int, str], place: int) -> bool:
    """Whether the offset lies inside the well-formed block of a call."""
    start, tag = call
    while tag in SECTIONS:
        if (found := first_of(OPENERS, text, start + len(tag))) is None:
            return False
        start, tag = found
    block = block_at(text, start, tag)
    return not isinstance(block, str) and block.end > place


def _scan_calls(text: str, start: int) -> int | Difference:
    """The number of calls in the text from `start` on; or the fault. Text may stand before the first call only."""
    found = first_of(OPENERS, text, start)
    stop = len(text) if found is None else found[0]
    stray = first_of((*CLOSERS, *INNER, THINK, THOUGHT), text, start, stop)
    if stray is not None:
        return _format(f"{stray[1]} out of place")
    calls, blocks, section = 0, 0, ""
    while found is not None:
        place, tag = found
        if tag in SECTIONS:
            if section:
                return _format(f"{tag} inside {section}")
            section, place = tag, place + len(tag)
        else:
            block = block_at(text, place, tag)
            if isinstance(block, str):
                return _format(block)
            calls, blocks, place = calls + block.calls, blocks + 1, block.end
            if blocks > MOST_CALLS:
                return _format(f"more than {MOST_CALLS} calls")
        place = skip_space(text, place)
        if section and text.startswith(SECTIONS[section], place):
            place, section = skip_space(text, place + len(SECTIONS[section])), ""
        found = next(((place, opener) for opener in OPENERS if text.startswith(opener, place)), None)
        if found is None and not is_blank(_without_end_tokens(text[place:])):
            return _format("text behind a call")
    return _format(f"{section} is not closed") if section else calls


def _without_end_tokens(text: str) -> str:
    bare = text.rstrip()
    while (token := next((token for token in END_TOKENS if bare.endswith(token)), "")) != "":
        text = bare = bare[: -len(token)].rstrip()
    return text


def _fault_of_items(attempt: Attempt, thinking: Thinking) -> Difference | None:
    """Judge the items: their order, and the messages among them."""
    items = [item for item in attempt.items or () if isinstance(item, dict)]
    called = said = False
    for item in items:
        if item.get("type") == "function_call":
            called = True
        elif item.get("type") == "message":
            content = item.get("content")
            content = content if isinstance(content, str) else ""
            if len(content) > LONGEST_TEXT:
                return Difference("too_long", f"{len(content)} characters, more than {LONGEST_TEXT}")
            if called and not is_blank(content):
                return _format("text behind a call")
            if not is_blank(content):
                if said:
                    return _format("several messages")
                said = True
            start = _end_of_thought(content, "auto" if thinking == "required" else thinking)
            if isinstance(start, Difference):
                return start
            if (fault := _fault_of_message(_without_end_tokens(content[start:]), attempt)) is not None:
                return fault
    return None


def _fault_of_message(text: str, attempt: Attempt) -> Difference | None:
    """Whether a message holds markup of calls or thoughts, whole or in pieces, or is a bare call; unless the expert's
    message does as well."""
    found = _call_in(text, attempt.tools)
    expert = attempt.expert.get("content")
    if found and not (isinstance(expert, str) and _call_in(expert, attempt.tools)):
        return _format(f"{found} in a message")
    return None


def _call_in(message: str, tools: list[Any]) -> str:
    """What looks like a call, or like a thought, in a message's text; empty where nothing does."""
    if "<" in message or "[" in message or ">" in message:
        lowered = message.lower()
        if (tag := next((tag for tag in _HALF_TAGS if tag in lowered), None)) is not None:
            return tag
    start = skip_space(message, 0)
    if message.startswith("```", start):
        start = skip_space(message, message.find("\n", start) + 1 or start)
    if message.startswith(("{", "["), start) and '"name"' in message and _ARGUMENTS.search(message):
        value = json_end(message, start)
        if value is None or not message[value[0] :].strip().strip("`"):
            return "a bare call"
    if _names_tool(message, start, tools) or (message.startswith("Action:", start) and "\nAction Input:" in message):
        return "a bare call"
    return ""


def _names_tool(message: str, start: int, tools: Any) -> bool:
    """Whether the message is `name(...)`, or begins with `[name(` or `<name>`, of a tool's name."""
    named = _NAMED.match(message, start)
    if named is None or (named[2] or named[3]) not in _names(tools):
        return False
    return bool(named[1] or named[3]) or message.rstrip().rstrip("`").rstrip().endswith(")")


def _names(tools: Any) -> set[str]:
    functions = [tool.get("function", tool) for tool in tools if isinstance(tool, dict)]
    names = (function.get("name") for function in functions if isinstance(function, dict))
    return {name for name in names if isinstance(name, str)}
