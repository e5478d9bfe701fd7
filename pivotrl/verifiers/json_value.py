"""`json`: a JSON value, whatever its white space, order of keys, escapes, and way to write a number.

2 is 2.0 and true is not 1; the order of lists counts, and so does every character of a string. An object that gives a
key twice is refused, and NaN equals only NaN.
"""

from typing import Any

from pivotrl.verifiers.attempt import Attempt
from pivotrl.verifiers.base import Difference
from pivotrl.verifiers.content import ContentVerifier
from pivotrl.verifiers.robust.arguments import parse_arguments
from pivotrl.verifiers.robust.shown import at, other, shown
from pivotrl.verifiers.robust.values import same_number


def compare(expected: Any, actual: Any) -> Difference | None:
    """Why two JSON values (or texts that hold one) are not the same; None where they are. Symmetric.

    Where the expert's text is no JSON, the texts must be equal. Reasons: those of `parse_arguments` (with not_json for
    arguments_not_json), other_type, other_keys, other_list_length, other_value.
    """
    if isinstance(expected, str):
        wanted = parse_arguments(expected)
        if isinstance(wanted, Difference):
            return None if expected == actual else other(expected, actual)
        expected = wanted
    if isinstance(actual, str):
        actual = parse_arguments(actual)
        if isinstance(actual, Difference):
            reason = "not_json" if actual.reason == "arguments_not_json" else actual.reason
            return Difference(reason, actual.detail)
    try:
        return same_value(expected, actual)
    except RecursionError:
        return Difference("too_long", "nested too deeply to be compared")


def same_value(expected: Any, actual: Any) -> Difference | None:
    """The first difference between two JSON values; None where they are equal. Raises RecursionError for nesting near
    the stack's limit."""
    if isinstance(expected, bool | str | None):
        if type(expected) is not type(actual):
            return other(expected, actual, "other_type")
        return None if expected == actual else other(expected, actual)
    if isinstance(expected, dict):
        if not isinstance(actual, dict):
            return other(expected, actual, "other_type")
        if expected.keys() != actual.keys():
            odd = next(iter(expected.keys() ^ actual.keys()))
            return Difference("other_keys", f"{shown(odd)} on one side only")
        pairs = ((key, value, actual[key]) for key, value in expected.items())
    elif isinstance(expected, list):
        if not isinstance(actual, list):
            return other(expected, actual, "other_type")
        if len(expected) != len(actual):
            return Difference("other_list_length", f"{len(actual)} items, expected {len(expected)}")
        pairs = ((f"[{index}]", *pair) for index, pair in enumerate(zip(expected, actual)))
    else:
        if isinstance(actual, bool) or not isinstance(actual, int | float):
            return other(expected, actual, "other_type")
        return None if same_number(expected, actual) else other(expected, actual)
    for place, wanted, found in pairs:
        if (difference := same_value(wanted, found)) is not None:
            return at(place, difference)
    return None


class JsonVerifier(ContentVerifier):
    """A message that is JSON, or that holds it in one fenced block; or one argument of a call."""

    ARGUMENTS = ("json", "data", "payload", "body", "value", "answer")
    FENCED = True

    def compare(self, expected: Any, actual: Any, settings: Any, attempt: Attempt) -> Difference | None:
        return compare(expected, actual)

    def argument_of(self, arguments: dict[str, Any], settings: Any) -> str | None:
        """A usual name, or the only argument."""
        found = super().argument_of(arguments, settings)
        return next(iter(arguments)) if found is None and len(arguments) == 1 else found
