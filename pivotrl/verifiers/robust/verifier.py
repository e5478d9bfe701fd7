"""`tool_call`, preset `robust`: functional equivalence of actions without the loopholes of string comparison.

- The completion is well formed (`robust.wellformed`).
- Calls are matched one to one with the expert's, in any order; surplus, missing and repeated ones cost.
- Arguments compare by value and by the tool's JSON schema (`robust.values`), strings as what they are
  (`robust.strings`).
- Where the expert wrote a message, a message with something in it is needed; `message` says what.
"""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field, field_validator

from pivotrl.schema import Section
from pivotrl.verifiers.action import expert_calls, other_kind, split_items
from pivotrl.verifiers.attempt import Attempt
from pivotrl.verifiers.base import Difference, Verdict, Verifier
from pivotrl.verifiers.comparators import comparator
from pivotrl.verifiers.params import Overridable
from pivotrl.verifiers.robust.calls import compare_calls
from pivotrl.verifiers.robust.free_text import compare_text
from pivotrl.verifiers.robust.schema import parameters_of
from pivotrl.verifiers.robust.similarity import DEFAULT_THRESHOLD
from pivotrl.verifiers.robust.values import Compare, ValueSettings, compare_arguments
from pivotrl.verifiers.robust.wellformed import Thinking, format_fault, says_nothing, spoken

if TYPE_CHECKING:
    from pivotrl.verifiers.judge.verifier import Ask, JudgeVerifier


class RobustParams(Section):
    """The parameters of `tool_call` in the preset `robust`."""

    count: Literal["f1", "strict"] = "f1"
    """Several calls: `f1` earns 2 matched / (expected + given); `strict` earns 1 where all match and no more are
    given."""
    message: Literal["any", "similar", "judge"] = "any"
    """What an expected message asks of a message: `any` content; content that says the same (verifier `text`); or that
    an LLM finds equivalent (verifier `judge`)."""
    message_threshold: float = Field(DEFAULT_THRESHOLD, ge=0, le=1)
    """With `message: similar`: the similarity that is needed, in [0, 1]."""
    text_threshold: float = Field(DEFAULT_THRESHOLD, ge=0, le=1)
    """The similarity that free text in arguments needs, in [0, 1]."""
    judge: dict[str, Any] = Field(default_factory=dict)
    """With `message: judge`: the parameters of the verifier `judge`."""
    thinking: Thinking = "auto"
    """`required`: the completion must close its thinking; `forbidden`: it must not think; `auto`: it may."""
    arguments: dict[str, str] = Field(default_factory=dict)
    """Kinds of arguments that are more than text, by name, as in {query: search_query, command: shell}: text, number,
    json, shell, search_query, url, sql, python, identifier or exact."""

    @field_validator("arguments")
    @classmethod
    def _known_kinds(cls, value: dict[str, str]) -> dict[str, str]:
        for kind in value.values():
            comparator(kind)
        return value


class RobustVerifier(Verifier):
    """See the module's docstring. Reasons: format, no_action, call_where_message_expected,
    message_where_call_expected, message_as_expected, empty_message, number_of_calls, other_tool, call_matches,
    calls_match, those of `robust.arguments`, `robust.values` and `robust.free_text`, and those of the kinds in
    `arguments`."""

    def __init__(self, params: dict[str, Any]):
        self._params = Overridable(RobustParams, params)
        self._judge: JudgeVerifier | None = None
        if self._params.default.message == "judge":
            from pivotrl.verifiers.judge import verifier as judging

            self.in_pool = False  # it waits on a server
            self._judge = judging.JudgeVerifier(self._params.default.judge)

    def attach(self, ask: "Ask") -> None:
        """Give a judge whose endpoint is `engine` its engine."""
        if self._judge is not None:
            self._judge.attach(ask)

    def usage(self) -> dict[str, float]:
        """What the judge was asked and what it cost; nothing where there is none."""
        return {} if self._judge is None else self._judge.usage()

    def close(self) -> None:
        """Close the judge's connections and cache."""
        if self._judge is not None:
            self._judge.close()

    def verify(self, attempt: Attempt, params: dict[str, Any] | None = None) -> Verdict:
        return self.verify_all([(attempt, params)])[0]

    def verify_all(self, attempts: Sequence[tuple[Attempt, dict[str, Any] | None]]) -> list[Verdict]:
        """Judge many; what the judge must decide is asked for all at once."""
        verdicts = [_decide(attempt, self._of_row(params)) for attempt, params in attempts]
        asked = [index for index, verdict in enumerate(verdicts) if verdict is None]
        if asked:
            assert self._judge is not None, "only a run that has a judge leaves a verdict to it"
            judged = self._judge.verify_all([(attempts[index][0], None) for index in asked])
            for index, verdict in zip(asked, judged, strict=True):
                verdicts[index] = verdict
        return [verdict for verdict in verdicts if verdict is not None]

    def _of_row(self, params: dict[str, Any] | None) -> RobustParams:
        """The run's parameters under a row's, which may neither bring a judge nor change where it is asked."""
        for name in params or ():
            if name == "judge" or (name == "message" and params[name] == "judge" and self._judge is None):
                raise ValueError(
                    f"verifier.params.{name}: a row may not choose a judge; write message and judge in the run's "
                    "parameters"
                )
        return self._params.of_row(params)


def _decide(attempt: Attempt, settings: RobustParams) -> Verdict | None:
    """The verdict; None where it is the judge's."""
    if (fault := format_fault(attempt, settings.thinking)) is not None:
        return Verdict(0.0, *fault)
    calls, message = split_items(attempt.items)
    expected = expert_calls(attempt.expert)
    if (verdict := other_kind(expected, calls, message)) is not None:
        return verdict
    if not expected:
        return _message(attempt, message or "", settings)
    return _calls(expected, calls, attempt, settings)


def _message(attempt: Attempt, message: str, settings: RobustParams) -> Verdict | None:
    expected, text = attempt.expert["content"], spoken(message)
    if says_nothing(text) and not says_nothing(expected):
        return Verdict(0.0, "empty_message")
    if settings.message == "judge":
        return None
    difference = compare_text(expected, text, settings.message_threshold) if settings.message == "similar" else None
    return Verdict(0.0, *difference) if difference else Verdict(1.0, "message_as_expected")


def _calls(expected: list[dict], actual: list[dict], attempt: Attempt, settings: RobustParams) -> Verdict:
    values = ValueSettings(settings.text_threshold)
    kinds = _comparators(tuple(settings.arguments.items())) if settings.arguments else {}

    def compare(name: str, wanted: dict[str, Any], found: Any) -> Difference | None:
        return compare_arguments(wanted, found, parameters_of(attempt.tools, name), values, kinds)

    matched, difference = compare_calls(expected, actual, compare)
    if matched == len(expected) == len(actual):
        return Verdict(1.0, "call_matches" if matched == 1 else "calls_match")
    reward = 0.0 if settings.count == "strict" else 2 * matched / (len(expected) + len(actual))
    if difference is None or len(expected) != len(actual):
        difference = Difference(
            "number_of_calls", f"{len(actual)} calls, {matched} of which match; expected {len(expected)}"
        )
    return Verdict(reward, *difference)


@lru_cache(maxsize=64)
def _comparators(kinds: tuple[tuple[str, str], ...]) -> Mapping[str, Compare]:
    return {name: comparator(kind) for name, kind in kinds}
