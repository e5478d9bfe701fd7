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
MOST_CHARACTERS, MOST_COMPARED = 600_000, 4_000_000
"""Characters of the arguments of all calls that are read, beyond those of the first call, and of the pairs that are
compared. The calls that go beyond match nothing either."""

CompareArguments = Callable[[str, dict[str, Any], Any], Difference | None]
"""(the tool's name, the expert's arguments, the model's) -> the difference."""


def compare_calls(expected: list[dict], actual: list[dict], compare: CompareArguments) -> tuple[int, Difference | None]:
    """How many calls can be matched one to one, and why the first expected call that is not matched has none.

    The reason is that of the nearest miss among the calls that are left over: the first one of the right tool. None
    where all expected calls are matched.
    """
    actual = _within_bounds(actual[:MOST_CALLS], len(expected))
    parsed = [parse_arguments(call.get("arguments")) for call in actual]
    table = [
        [_difference(wanted, call, arguments, compare) for call, arguments in zip(actual, parsed)]
        for wanted in expected[:MOST_CALLS]
    ]
    pairs = maximum_matching([[index for index, difference in enumerate(row) if difference is None] for row in table])
    if len(pairs) == len(expected):
        return len(pairs), None
    taken = set(pairs.values())
    row = next((row for index, row in enumerate(table) if index not in pairs), [])
    misses = [difference for index, difference in enumerate(row) if difference is not None and index not in taken]
    near = next((miss for miss in misses if miss.reason != "other_tool"), None)
    return len(pairs), near or (misses[0] if misses else Difference("number_of_calls"))


def _within_bounds(calls: list[dict], expected: int) -> list[dict]:
    total = 0
    for index, call in enumerate(calls):
        arguments = call.get("arguments")
        total += len(arguments) if isinstance(arguments, str) else 0
        if index and (total > MOST_CHARACTERS or total * expected > MOST_COMPARED):
            return calls[:index]
    return calls


def _difference(wanted: dict, call: dict, arguments: Any, compare: CompareArguments) -> Difference | None:
    name = wanted["name"]
    if call.get("name") != name:
        return Difference("other_tool", f"{shown(call.get('name'))}, expected {shown(name)}")
    if call.get("arguments") == wanted["arguments"]:
        return None
    if isinstance(arguments, Difference):
        return arguments
    return compare(name, parse_expected(wanted["arguments"]), arguments)
