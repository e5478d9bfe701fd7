"""The arguments of a call that a model wrote, read strictly: JSON whose objects name each key once."""

import json
from functools import lru_cache
from typing import Any

from pivotrl.trajectories.faults import excerpt
from pivotrl.verifiers.arguments import LONGEST_ARGUMENTS
from pivotrl.verifiers.base import Difference


class _DuplicateKey(ValueError):
    """Two values under one key: which of them a tool would see is the parser's choice."""


def parse_arguments(arguments: Any) -> Any:
    """The JSON value of untrusted `arguments`, or a Difference that says why there is none.

    NaN and infinities are read as such: they equal only the expert's own. Reasons: arguments_not_json, too_long,
    duplicate_key.
    """
    if not isinstance(arguments, str):
        return Difference("arguments_not_json", f"the arguments are a {type(arguments).__name__}, not text")
    if len(arguments) > LONGEST_ARGUMENTS:
        return Difference("too_long", f"{len(arguments)} characters of arguments, more than {LONGEST_ARGUMENTS}")
    try:
        return _DECODER.decode(arguments)
    except _DuplicateKey as error:
        return Difference("duplicate_key", f"{error}")
    except (ValueError, RecursionError):
        return Difference("arguments_not_json", excerpt(arguments))


def parse_strictly(text: str) -> Any:
    """The value of JSON text whose objects name each key once. Raises ValueError, also for nesting beyond the
    parser's stack."""
    try:
        return _DECODER.decode(text)
    except RecursionError:
        raise ValueError("nested too deeply") from None


@lru_cache(maxsize=4096)
def parse_expected(arguments: str) -> dict[str, Any]:
    """The expert's arguments: checked when the row was read. Shared by the samples of a turn, and never changed."""
    return json.loads(arguments)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        seen: set[str] = set()
        twice = next(key for key, _ in pairs if key in seen or seen.add(key))
        raise _DuplicateKey(f"{excerpt(twice)} is given twice")
    return found


_DECODER = json.JSONDecoder(object_pairs_hook=_unique)
