"""Comparators of one argument's content by the name of its kind, imported when they are asked for."""

import importlib
from typing import Any

from pivotrl.verifiers.base import Difference
from pivotrl.verifiers.robust.values import Compare, compare_arguments

_FUNCTIONS = {
    "text": "text:compare",
    "number": "number:compare_argument",
    "json": "json_value:compare",
    "shell": "shell.compare:compare",
    "search_query": "search_query:compare",
    "url": "url:compare",
    "sql": "sql:compare",
    "python": "code.source:compare",
}
"""`module:function` below pivotrl.verifiers."""

KINDS = (*_FUNCTIONS, "identifier", "exact")


def comparator(kind: str) -> Compare:
    """The comparator of a kind: (the expert's value, an untrusted one) -> the difference, or None.

    Raises ValueError for an unknown kind.
    """
    if kind == "exact":
        return _exact
    if kind == "identifier":
        return _identifier
    if kind not in _FUNCTIONS:
        raise ValueError(f"{kind!r} is not a kind of argument; write one of {', '.join(KINDS)}")
    module, name = _FUNCTIONS[kind].split(":")
    found: Compare = getattr(importlib.import_module(f"pivotrl.verifiers.{module}"), name)
    if kind == "python":
        return lambda expected, actual: found(expected, actual, language="python")
    return found


def _exact(expected: Any, actual: Any) -> Difference | None:
    """The same JSON value; of strings every character counts."""
    if isinstance(expected, str):
        return None if expected == actual else Difference("other_value")
    return _identifier(expected, actual)


def _identifier(expected: Any, actual: Any) -> Difference | None:
    """Strings exactly after trimming, all else by value."""
    return compare_arguments({"": expected}, {"": actual}, {"properties": {"": {"pattern": ""}}})
