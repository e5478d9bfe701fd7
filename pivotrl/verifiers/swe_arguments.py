"""What `swe_pivot` reads in a tool's arguments, as NeMo-Gym does (Gym 07d6b0d0), odd corners included.

Arguments are any JSON value: the parsed text may be a list or a number. Functions raise TypeError or AttributeError on
some of those, where Gym's do, and the verdict is then 0.
"""

import json
import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

PATH_KEYS = ("path", "file", "file_path", "filename", "file_name")
COMMAND_KEYS = ("command", "cmd")

_WORD_IN_COMMAND = re.compile(r"""(?<![^\s='"(])[\w./-]+""")
"""A run of a path's characters, at the start or after white space, `=`, a quote or `(`."""


def parse(raw: Any) -> Any:
    """Arguments as a value; what is no JSON is an empty object. Raises ValueError for an integer of thousands of
    digits, and RecursionError."""
    if isinstance(raw, str):
        try:
            return json.loads(raw)
        except json.JSONDecodeError:
            return {}
    return raw if isinstance(raw, dict) else {}


_parse_once = lru_cache(maxsize=4096)(parse)


def parse_expected(raw: Any) -> Any:
    """`parse`, done once for the K samples of a turn; what it returns is never changed."""
    return _parse_once(raw) if isinstance(raw, str) else parse(raw)


def first_of(arguments: Any, keys: Sequence[str]) -> str:
    """The first of `keys` that is there, as text; empty where none is."""
    return next((str(arguments[key]).strip() for key in keys if key in arguments), "")


def path_end(path: str, parts: int) -> str:
    """The last `parts` parts of a path."""
    return "/".join(path.strip("/").rsplit("/", parts)[-parts:])


def verb(command: str) -> str:
    """The program that a command starts with, without its folder."""
    words = command.split(None, 1)
    return words[0].rpartition("/")[2] if words else ""


def paths_in(command: str) -> list[str]:
    """What looks like a path: has a slash, and three characters or more."""
    found = []
    for word in _WORD_IN_COMMAND.findall(command):
        if word.startswith("/"):
            path = word.partition("//")[0].rstrip("/")
        elif "/" in word[:-1] and not word.startswith("--"):
            path = word
        else:
            continue
        if len(path) > 2:
            found.append(path)
    return found


def line_range(raw: Any) -> tuple[int, int] | None:
    """A `view_range` of two numbers, as a list or as its JSON text. Raises OverflowError for infinity."""
    try:
        value = json.loads(raw) if isinstance(raw, str) else raw
        if isinstance(value, list) and len(value) == 2:
            return int(value[0]), int(value[1])
    except (ValueError, TypeError):
        pass
    return None


def edited_text(arguments: Any) -> str:
    """The text that an edit brings, by the first of the usual arguments that is there; empty for none."""
    if "new_str" in arguments:
        return f"{arguments.get('old_str', '')}\n{arguments['new_str']}"
    for key in ("patch", "diff"):
        if key in arguments:
            return str(arguments[key])
    if "content" in arguments or "file_text" in arguments:
        return str(arguments.get("content", arguments.get("file_text", "")))
    return ""
