"""`tool_call`: functional equivalence of tool calls, with the semantics of NVIDIA NeMo-Gym's
`single_step_tool_use_with_argument_comparison` (Gym 07d6b0d0), corner cases included:

- calls win over text; a message is right whenever a message is expected, whatever it says;
- names are equal; argument objects have equal key sets; a value's type is the expected one's or a subtype (True is an
int);
- strings of two words or more on both sides need |E & A| / (|E| + |A|) >= threshold over word counts: half of Dice's
  coefficient, so that equal strings score 0.5; shorter ones must be equal;
- surplus calls are free unless `parallel_tool_call_rewarding` is on.

One thing is added: where NeMo-Gym would raise or stall on what a model wrote (nesting beyond the parser's stack,
integers of thousands of digits, megabytes of arguments), the verdict is 0; and of several calls, on either side, those
after the first 64 match nothing, though they are counted.
"""

from typing import Any, Literal

from pydantic import Field

from pivotrl.schema import Section
from pivotrl.verifiers.action import expert_calls, other_kind, split_items
from pivotrl.verifiers.arguments import MALFORMED, parse_actual, parse_expected
from pivotrl.verifiers.attempt import Attempt
from pivotrl.verifiers.base import Verdict, Verifier
from pivotrl.verifiers.matching import maximum_matching
from pivotrl.verifiers.params import Overridable

MOST_CALLS = 64
"""Calls of one completion, and of one expert's turn, that are compared: each is compared with each."""


class ToolCallParams(Section):
    """NeMo-Gym's parameters, under its names."""

    word_count_similarity_threshold: float = 0.1
    """0.1 conversational and function calling, 0.3 search, 0.0 software engineering; above 0.5 nothing of two words or
    more passes."""
    floating_point_comparison_threshold: float = Field(1e-6, gt=0)
    """Absolute difference below which two floats are equal."""
    parallel_tool_call_rewarding: bool = False
    """Count calls: surplus and missing ones cost. Off: all expected calls must be there, others are free."""
    parallel_tool_call_reward_mode: Literal["binary_strict", "fractional", "f1"] = "binary_strict"
    """With `parallel_tool_call_rewarding`: all or nothing, matched / required, or 2 matched / (expected + actual)."""
    allow_subset: bool = False
    """With `parallel_tool_call_rewarding`: fewer calls than expected may earn."""
    allow_superset: bool = False
    """With `parallel_tool_call_rewarding`: more calls than expected may earn."""


class ToolCallVerifier(Verifier):
    """See the module's docstring. Reasons are the keys of `Verdict` in this file."""

    def __init__(self, params: dict[str, Any]):
        self._params = Overridable(ToolCallParams, params)

    def verify(self, attempt: Attempt, params: dict[str, Any] | None = None) -> Verdict:
        settings = self._params.of_row(params)
        actual, message = split_items(attempt.items)
        expected = expert_calls(attempt.expert)
        if (verdict := other_kind(expected, actual, message)) is not None:
            return verdict
        if not expected:
            return Verdict(1.0, "message_as_expected")
        if len(expected) == len(actual) == 1:
            fault = _call_fault(expected[0], actual[0], parse_actual(actual[0]), settings)
            return Verdict(0.0, fault) if fault else Verdict(1.0, "call_matches")
        return _compare_batches(expected, actual, settings)


def _compare_batches(expected: list[dict], actual: list[dict], params: ToolCallParams) -> Verdict:
    num_expected, num_actual = len(expected), len(actual)
    counting = params.parallel_tool_call_rewarding
    allowed = params.allow_subset if num_actual < num_expected else params.allow_superset
    if counting and num_actual != num_expected and not allowed:
        return Verdict(0.0, "number_of_calls")
    actual = actual[:MOST_CALLS]
    parsed = [parse_actual(call) for call in actual]
    candidates: list[list[int]] = []
    faults: list[str] = []
    for wanted in expected[:MOST_CALLS]:
        found = [_call_fault(wanted, call, arguments, params) for call, arguments in zip(actual, parsed)]
        candidates.append([index for index, fault in enumerate(found) if not fault])
        # The nearest miss explains best: the first call of the right tool.
        faults.append(next((fault for fault in found if fault and fault != "other_tool"), "other_tool"))
    pairs = maximum_matching(candidates)
    matched = len(pairs)
    required = min(num_expected, num_actual) if counting and params.allow_subset else num_expected
    if counting and params.parallel_tool_call_reward_mode == "f1":
        reward = 2 * matched / (num_expected + num_actual)
    elif counting and params.parallel_tool_call_reward_mode == "fractional":
        reward = matched / required
    else:
        reward = float(matched == required)
    if reward == 1.0:
        return Verdict(reward, "call_matches" if num_expected == 1 else "calls_match")
    unmatched = [index for index in range(num_expected) if index not in pairs]
    if not unmatched or matched == num_actual:
        return Verdict(reward, "number_of_calls")
    return Verdict(reward, faults[unmatched[0]] if unmatched[0] < len(faults) else "number_of_calls")


def _call_fault(expected: dict, actual: dict, arguments: Any, params: ToolCallParams) -> str:
    """Why one call is not the expected one; empty where it is."""
    if actual.get("name") != expected["name"]:
        return "other_tool"
    if arguments is MALFORMED:
        return "arguments_not_json"
    try:
        return _value_fault(parse_expected(expected["arguments"]), arguments, params)
    except RecursionError:
        return "arguments_not_json"


def _value_fault(expected: Any, actual: Any, params: ToolCallParams) -> str:
    if not isinstance(actual, type(expected)):
        return "other_type"
    if isinstance(expected, dict):
        if expected.keys() != actual.keys():
            return "other_keys"
        faults = (_value_fault(value, actual[key], params) for key, value in expected.items())
        return next(filter(None, faults), "")
    if isinstance(expected, list):
        if len(expected) != len(actual):
            return "other_list_length"
        faults = (_value_fault(*pair, params) for pair in zip(expected, actual))
        return next(filter(None, faults), "")
    if isinstance(expected, str):
        equal = _strings_match(expected, actual, params.word_count_similarity_threshold)
    elif isinstance(expected, float):
        equal = abs(actual - expected) < params.floating_point_comparison_threshold
    else:
        equal = actual == expected
    return "" if equal else "other_value"


def _strings_match(expected: str, actual: str, threshold: float) -> bool:
    """|E & A| / (|E| + |A|) >= threshold over multisets of words; strings of less than two words must be equal."""
    wanted, found = expected.lower().split(), actual.lower().split()
    if len(wanted) < 2 or len(found) < 2:
        return expected == actual
    counts: dict[str, int] = {}
    for word in wanted:
        counts[word] = counts.get(word, 0) + 1
    shared = 0
    for word in found:
        if left := counts.get(word):
            counts[word] = left - 1
            shared += 1
    return shared / (len(wanted) + len(found)) >= threshold
