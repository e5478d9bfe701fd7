"""Several calls against several: an optimal one-to-one matching, in any order."""

from collections.abc import Callable
from typing import Any

from pivotrl.verifiers.base import Difference
from pivotrl.verifiers.matching import maximum_matching
from pivotrl.verifiers.robust.arguments import parse_arguments, parse_expected
from pivotrl.verifiers.robust.shown import shown

MOST_CALLS = 64
"""Calls of one completion, and of one expert's turn, that are compared: each is compared with each. Those after them
match nothing, though they are counted."""

CompareArguments = Callable[[str, dict[str, Any], Any], Difference | None]
"""(the tool's name, the expert's arguments, the model's) -> the difference."""


def compare_calls(expected: list[dict], actual: list[dict], compare: CompareArguments) -> tuple[int, Difference | None]:
    """How many calls can be matched one to one, and why the first expected call that is not matched has none.

    The reason is that of the nearest miss: the first call of the right tool. None where all expected calls are
    matched.
    """
    actual = actual[:MOST_CALLS]
    parsed = [parse_arguments(call.get("arguments")) for call in actual]
    candidates: list[list[int]] = []
    misses: list[Difference] = []
    for wanted in expected[:MOST_CALLS]:
        found = [_difference(wanted, call, arguments, compare) for call, arguments in zip(actual, parsed)]
        candidates.append([index for index, difference in enumerate(found) if difference is None])
        faults = [difference for difference in found if difference is not None]
        misses.append(next((fault for fault in faults if fault.reason != "other_tool"), (faults or [_NONE])[0]))
    pairs = maximum_matching(candidates)
    if len(pairs) == len(expected):
        return len(pairs), None
    unmatched = next(index for index in range(len(expected)) if index not in pairs)
    taken = unmatched >= len(candidates) or candidates[unmatched]
    return len(pairs), _NONE if taken else misses[unmatched]


_NONE = Difference("number_of_calls")


def _difference(wanted: dict, call: dict, arguments: Any, compare: CompareArguments) -> Difference | None:
    name = wanted["name"]
    if call.get("name") != name:
        return Difference("other_tool", f"{shown(call.get('name'))}, expected {shown(name)}")
    if call.get("arguments") == wanted["arguments"]:
        return None
    if isinstance(arguments, Difference):
        return arguments
    return compare(name, parse_expected(wanted["arguments"]), arguments)
