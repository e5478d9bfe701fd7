"""Is it text that a tokenizer can read? Asked of every string that a row holds, also inside calls' JSON arguments."""

import json
import re
from typing import Any

from pivotrl.trajectories.faults import RowFault, excerpt
from pivotrl.trajectories.store import parse_json

DEEPEST = 100
"""Levels of lists and objects that a row may nest; far below Python's stack, which templates and verifiers walk on."""
_HALF_ESCAPED = re.compile(r"\\u[dD][89a-fA-F]")


def text(value: Any, key: str) -> str:
    """`value` if it is a string that a tokenizer can read. Raises RowFault."""
    if not isinstance(value, str):
        raise RowFault("not_text", f"{key} is {excerpt(value)}", f"write {key} as a string")
    if not value.isascii():
        _check_whole_characters(value, key)
    return value


def check_depth(value: Any, key: str) -> None:
    """Raise RowFault where a JSON value nests too deeply. Asked first: nearly all else recurses."""
    level = [[value]]
    for _ in range(DEEPEST + 1):
        level = [
            child
            for node in level
            for child in (node.values() if isinstance(node, dict) else node)
            if isinstance(child, dict | list)
        ]
        if not level:
            return
    raise RowFault("nested_too_deeply", f"{key} nests more than {DEEPEST} levels", "write flatter JSON")


def check_characters(value: Any, key: str) -> None:
    """Raise RowFault where any string in a JSON value, keys included, is no text."""
    _check_whole_characters(json.dumps(value, ensure_ascii=False), key)


def check_arguments(arguments: Any) -> str:
    """A call's arguments, if they are text and any JSON object in them holds only text. Raises RowFault.

    They are parsed only where an escape or many brackets make it necessary; malformed ones pass, because a history may
    hold them.
    """
    arguments = text(arguments, "arguments")
    if _HALF_ESCAPED.search(arguments) or arguments.count("{") + arguments.count("[") > DEEPEST:
        try:
            parsed = parse_json(arguments)
        except ValueError:
            return arguments
        check_depth(parsed, "arguments")
        check_characters(parsed, "arguments")
    return arguments


def _check_whole_characters(value: str, key: str) -> None:
    try:
        value.encode("utf-8")
    except UnicodeEncodeError:
        raise RowFault(
            "lone_surrogate",
            f"{key} holds half of a character pair (\\ud800 to \\udfff alone)",
            "write the whole character, or U+FFFD in its place",
        ) from None
