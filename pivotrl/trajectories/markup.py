"""An assistant's text in Hermes' form, `<think>...</think> text <tool_call>{json}</tool_call>`, taken apart."""

import json
import re
from typing import Any

from pivotrl.trajectories.faults import RowFault, excerpt
from pivotrl.trajectories.store import parse_json
from pivotrl.trajectories.text import check_depth

_TOKEN = re.compile(
    r"""\s+|[\[\]{}:,]|'[^'\\]*(?:\\.[^'\\]*)*'|"[^"\\]*(?:\\.[^"\\]*)*"|[-+.\w]+""", re.DOTALL | re.ASCII
)
_WORDS = {"True": "true", "False": "false", "None": "null"}
_ESCAPE = re.compile(r"\\(x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|.)", re.DOTALL)
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "\\": "\\", "'": "'", '"': '"', "\n": ""}


def split_blocks(text: str, tag: str) -> tuple[str, list[str]]:
    """The text outside all `<tag>...</tag>`, stripped, and what is inside each; in linear time.

    Raises RowFault where a block is not closed.
    """
    first, last = f"<{tag}>", f"</{tag}>"
    outside, blocks, position = [], [], 0
    while (start := text.find(first, position)) >= 0:
        end = text.find(last, start)
        if end < 0:
            raise RowFault(
                "bad_tool_calls", f"{first} without {last}: {excerpt(text[start:])}", f"close it with {last}"
            )
        outside.append(text[position:start])
        blocks.append(text[start + len(first) : end].strip())
        position = end + len(last)
    outside.append(text[position:])
    return "".join(outside).strip(), blocks


def split_thinking(text: str) -> tuple[str, str]:
    """The reasoning and the rest. Templates may have opened `<think>` in the prompt: the text may begin inside it."""
    reasoning, close, rest = text.partition("</think>")
    if not close or "<think>" in reasoning.lstrip()[1:]:
        return "", text
    return reasoning.lstrip().removeprefix("<think>").strip(), rest


def assistant_message(text: str) -> dict[str, Any]:
    """The chat message that the text means; text without markup stays as it is. Raises RowFault."""
    reasoning, rest = split_thinking(text)
    content, blocks = split_blocks(rest, "tool_call")
    message: dict[str, Any] = {"role": "assistant", "content": content if blocks else rest}
    if reasoning:
        message |= {"content": content, "reasoning_content": reasoning}
    if blocks:
        message["tool_calls"] = [call for block in blocks for call in calls_of(block)]
    return message


def calls_of(text: str) -> list[dict[str, Any]]:
    """The calls that a text holds, as `{"name", "arguments"}` or a list of such; JSON, or the Python literal that some
    public sets have in its place. Raises RowFault."""
    value = _parse(text)
    calls = value if isinstance(value, list) else [value]
    for call in calls:
        if not isinstance(call, dict) or not isinstance(call.get("name"), str):
            raise RowFault("bad_tool_calls", f"a call is {excerpt(call)}", 'write {"name", "arguments"} as JSON')
    return [{"function": {"name": call["name"], "arguments": call.get("arguments")}} for call in calls]


def _parse(text: str) -> Any:
    try:
        value = parse_json(text)
    except ValueError as error:
        value = _literal(text)
        if value is None:
            raise RowFault(
                "bad_tool_calls", f"a call is {excerpt(text)} ({error})", 'write {"name", "arguments"} as JSON'
            ) from None
    check_depth(value, "a call")
    return value


def _literal(text: str) -> Any:
    """The value of a Python literal of JSON's types, rewritten as JSON token by token: nothing is evaluated. None where
    it is none."""
    words, position = [], 0
    while position < len(text):
        token = _TOKEN.match(text, position)
        if token is None:
            return None
        words.append(_json_token(token[0]))
        position = token.end()
    try:
        return parse_json("".join(words))
    except ValueError:
        return None


def _json_token(token: str) -> str:
    if token[0] not in "'\"":
        return _WORDS.get(token, token)
    return json.dumps(_ESCAPE.sub(_escaped, token[1:-1]))


def _escaped(found: re.Match[str]) -> str:
    """The character that an escape of a Python string means; an unknown one stays."""
    mark = found[1]
    return chr(int(mark[1:], 16)) if len(mark) > 1 else _ESCAPES.get(mark, f"\\{mark}")
