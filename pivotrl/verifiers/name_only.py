"""`name_only`: does the model call the expert's tool? The arguments are free.

The preset `nemo_gym` is the paper's verifier for software engineering (one tool call a turn, its name compared), and
`robust` the same without what a policy learns to use: calls beside the right one, empty messages, broken markup.
"""

from collections import Counter
from typing import Any, Literal

from pivotrl.schema import Section
from pivotrl.verifiers.action import expert_calls, other_kind, split_items
from pivotrl.verifiers.attempt import Attempt
from pivotrl.verifiers.base import Verdict, Verifier
from pivotrl.verifiers.params import Overridable
from pivotrl.verifiers.robust.shown import shown
from pivotrl.verifiers.robust.wellformed import Thinking, format_fault, is_blank, spoken


class NameOnlyParams(Section):
    """There are none."""


class RobustNameOnlyParams(Section):
    """Those of the preset `robust`."""

    count: Literal["f1", "strict"] = "f1"
    """Calls beside the expected ones, and too few: `f1` gives 2 shared / (expected + actual), `strict` nothing."""
    thinking: Thinking = "auto"
    """`required`: the completion must close its thinking; `forbidden`: it must not think; `auto`: it may."""


class NameOnlyVerifier(Verifier):
    """The first call is of the expected tool; where several calls are expected, each of their tools is called as often,
    in any order. Further calls are free, and so is a message's text."""

    def __init__(self, params: dict[str, Any]):
        self._params = Overridable(NameOnlyParams, params)

    def verify(self, attempt: Attempt, params: dict[str, Any] | None = None) -> Verdict:
        self._params.of_row(params)
        actual, message = split_items(attempt.items)
        expected = expert_calls(attempt.expert)
        if (verdict := other_kind(expected, actual, message)) is not None:
            return verdict
        if not expected:
            return Verdict(1.0, "message_as_expected")
        missing = _names(expected) - _names(actual[:1] if len(expected) == 1 else actual)
        if missing:
            return Verdict(0.0, "other_tool", f"no call of {shown(next(iter(missing)))}")
        return Verdict(1.0, "call_matches" if len(expected) == 1 else "calls_match")


class RobustNameOnlyVerifier(Verifier):
    """A well-formed completion that calls the expected tools, each as often as expected, in any order; or a message
    with something in it."""

    def __init__(self, params: dict[str, Any]):
        self._params = Overridable(RobustNameOnlyParams, params)

    def verify(self, attempt: Attempt, params: dict[str, Any] | None = None) -> Verdict:
        settings = self._params.of_row(params)
        if (fault := format_fault(attempt, settings.thinking)) is not None:
            return Verdict(0.0, *fault)
        actual, message = split_items(attempt.items)
        expected = expert_calls(attempt.expert)
        if (verdict := other_kind(expected, actual, message)) is not None:
            return verdict
        if not expected:
            empty = is_blank(spoken(message or ""))
            return Verdict(0.0, "empty_message") if empty else Verdict(1.0, "message_as_expected")
        shared = (_names(expected) & _names(actual)).total()
        if shared == len(expected) == len(actual):
            return Verdict(1.0, "call_matches" if shared == 1 else "calls_match")
        reward = 2 * shared / (len(expected) + len(actual)) if settings.count == "f1" else 0.0
        if shared < min(len(expected), len(actual)):
            return Verdict(reward, "other_tool", f"{shared} of {len(expected)} expected tools are called")
        return Verdict(reward, "number_of_calls", f"{len(actual)} calls, expected {len(expected)}")


def _names(calls: list[dict[str, Any]]) -> Counter[str]:
    """How often each tool is called; calls without a name are not counted."""
    return Counter(name for call in calls if isinstance(name := call.get("name"), str))
