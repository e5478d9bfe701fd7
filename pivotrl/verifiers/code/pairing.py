"""Calls matched one to one where the tools' names may differ, within a bound on the work."""

from collections.abc import Callable
from typing import Any

from pivotrl.verifiers.base import Difference, Verdict
from pivotrl.verifiers.matching import maximum_matching
from pivotrl.verifiers.robust.arguments import parse_arguments, parse_expected

MOST_CALLS = 32
"""Calls on either side that are compared, each with each; those after them match nothing, though they count."""
MOST_CHARACTERS = 400_000
"""Characters of the model's arguments that are compared in one verdict; the calls beyond match nothing."""

LONGEST_NAME = 256
"""Characters of a tool's name."""

CompareCall = Callable[[dict, dict[str, Any], dict, dict[str, Any]], Difference | None]
"""(the expert's call, its arguments, the model's call, its arguments) -> the difference."""


def compare_batches(expected: list[dict], actual: list[dict], compare: CompareCall, graded: bool) -> Verdict:
    """The verdict on several calls in any order.

    Args:
        expected: the expert's calls, checked; one at least.
        actual: the model's, untrusted; one at least.
        graded: 2 matched / (expected + actual) is earned; else 1 where all match and the numbers are equal.
    """
    parsed: list[Any] = []
    left = MOST_CHARACTERS
    for call in actual[:MOST_CALLS]:
        arguments = call.get("arguments")
        left -= len(arguments) if isinstance(arguments, str) else 0
        too_long = Difference("too_long", f"more than {MOST_CHARACTERS} characters of arguments")
        parsed.append(too_long if left < 0 else parse_arguments(arguments))
    candidates: list[list[int]] = []
    misses: list[Difference] = []
    for wanted in expected[:MOST_CALLS]:
        fits, nearest = [], Difference("number_of_calls")
        for index, (call, found) in enumerate(zip(actual, parsed)):
            difference = _compare(wanted, call, found, compare)
            if difference is None:
                fits.append(index)
            elif nearest.reason in ("number_of_calls", "other_tool"):
                nearest = difference  # the nearest miss explains best: the first call of the right kind
        candidates.append(fits)
        misses.append(nearest)
    pairs = maximum_matching(candidates)
    matched = len(pairs)
    if matched == len(expected) == len(actual):
        return Verdict(1.0, "call_matches" if matched == 1 else "calls_match")
    reward = 2 * matched / (len(expected) + len(actual)) if graded else 0.0
    if len(expected) != len(actual):
        numbers = f"{len(actual)} calls, {matched} of which match; expected {len(expected)}"
        return Verdict(reward, "number_of_calls", numbers)
    unmatched = next(index for index in range(len(expected)) if index not in pairs)
    if unmatched >= len(candidates) or candidates[unmatched]:
        return Verdict(reward, "number_of_calls", f"{matched} of {len(expected)} calls match")
    return Verdict(reward, *misses[unmatched])


def _compare(wanted: dict, call: dict, arguments: Any, compare: CompareCall) -> Difference | None:
    if isinstance(arguments, Difference):
        return arguments
    if not isinstance(call.get("name"), str) or len(call["name"]) > LONGEST_NAME:
        return Difference("other_tool", "the call has no name that a tool could have")
    if not isinstance(arguments, dict):
        return Difference("other_type", "the arguments are no object")
    return compare(wanted, parse_expected(wanted["arguments"]), call, arguments)
