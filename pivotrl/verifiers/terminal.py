"""`terminal`: steps of a terminal agent, as NVIDIA NeMo-Gym's `terminus_judge` judges them without its judge (Gym
07d6b0d0, the configuration `string_only` that its public set names):

- the texts of all messages are joined, and what follows the last `</think>` must be the JSON of an answer in the
  harness's format (`terminus`);
- where the expert ends the task, so must the model; not the other way round;
- the keystrokes of all commands, joined without anything between, have a difflib ratio of at least the threshold
  (`sequence`); analysis, plan and durations are free.

Two things are added: where NeMo-Gym would raise on what a model wrote (deep nesting, integers of thousands of digits),
the verdict is 0; and so it is, with `too_long`, beyond a million characters or `sequence.MOST_PAIRS`.
"""

import json
from functools import lru_cache
from typing import Any, Literal

from pivotrl.schema import Section
from pivotrl.trajectories.faults import excerpt
from pivotrl.verifiers.attempt import Attempt, Item
from pivotrl.verifiers.base import Verdict, Verifier
from pivotrl.verifiers.params import Overridable
from pivotrl.verifiers.sequence import at_least
from pivotrl.verifiers.terminus import FORMATS, format_fault, keystrokes, says_complete

LONGEST_TEXT = 1_000_000
"""Characters of a completion that are read."""


class TerminalParams(Section):
    """NeMo-Gym's parameters, under its names; `harness` is ours."""

    enable_string_similarity: bool = True
    """Compare the keystrokes. Off: any answer of the right format, which ends the task where the expert does."""
    string_similarity_threshold: float = 0.9
    """Least ratio of the keystrokes; NeMo-Gym has 0.95 where a judge is asked about the rest."""
    threshold: float | None = None
    """A row's own threshold, in place of `string_similarity_threshold`."""
    harness: Literal["terminus_1", "terminus_2"] | None = None
    """The format of rows whose metadata has no `harness`."""


class TerminalVerifier(Verifier):
    """See the module's docstring. Reasons are NeMo-Gym's failure keys, `equivalent`, and `too_long`."""

    def __init__(self, params: dict[str, Any]):
        self._params = Overridable(TerminalParams, params)

    def verify(self, attempt: Attempt, params: dict[str, Any] | None = None) -> Verdict:
        settings = self._params.of_row(params)
        answer = _expected_answer(attempt)
        if not answer:
            return Verdict(0.0, "expected_answer_invalid", "there is none")
        text = "\n".join(_texts(attempt.items)).strip()
        if not text:
            return Verdict(0.0, "model_output_invalid", "no text")
        if len(text) > LONGEST_TEXT:
            return Verdict(0.0, "too_long", f"a text of {len(text)} characters")
        expected, actual = _parse_expected(answer), _parse(text.rpartition("</think>")[2].strip())
        if expected is None:
            return Verdict(0.0, "expected_answer_invalid", "not the JSON of an object")
        if actual is None:
            return Verdict(0.0, "model_output_invalid", "not the JSON of an object")
        harness = attempt.metadata.get("harness")
        harness = settings.harness if harness is None else harness
        if not isinstance(harness, str) or harness not in FORMATS:
            return Verdict(0.0, "unknown_harness", excerpt(harness))
        return _compare(expected, actual, harness, settings)


def _compare(expected: dict[str, Any], actual: dict[str, Any], harness: str, params: TerminalParams) -> Verdict:
    fault = format_fault(expected, harness)
    if fault:
        return Verdict(0.0, "expected_answer_invalid", fault)
    fault = format_fault(actual, harness)
    if fault:
        return Verdict(0.0, "schema_check_failed", fault)
    if says_complete(expected) and not says_complete(actual):
        return Verdict(0.0, "task_complete_check_failed")
    if not params.enable_string_similarity:
        return Verdict(1.0, "equivalent")
    threshold = params.string_similarity_threshold if params.threshold is None else params.threshold
    reached = _reaches(keystrokes(expected), keystrokes(actual), threshold)
    if reached is None:
        return Verdict(0.0, "too_long", "keystrokes too long to compare")
    if not reached:
        return Verdict(0.0, "string_similarity_below_threshold", f"below {threshold}")
    return Verdict(1.0, "equivalent")


def _reaches(expected: list[str], actual: list[str], threshold: float) -> bool | None:
    """Whether the similarity of two lists of keystrokes is at least `threshold`; None: too long to tell."""
    if not expected or not actual:
        return float(expected == actual) >= threshold
    return at_least("".join(expected), "".join(actual), threshold)


def _expected_answer(attempt: Attempt) -> str:
    """The text of the expert's message, or the metadata's `expected_answer`; empty where there is neither."""
    content = attempt.expert.get("content")
    if isinstance(content, str) and content:
        return content
    answer = attempt.metadata.get("expected_answer")
    return "" if answer is None else str(answer)


def _texts(items: list[Item] | None) -> list[str]:
    """All texts of the assistant's messages, whose content is a text or a list of parts that have one."""
    texts: list[Any] = []
    for item in items or ():
        if isinstance(item, dict) and item.get("type") == "message" and item.get("role", "assistant") == "assistant":
            content = item.get("content")
            if isinstance(content, list):
                texts += [part.get("text") for part in content if isinstance(part, dict)]
            else:
                texts.append(content)
    return [text for text in texts if isinstance(text, str)]


def _parse(text: str) -> dict[str, Any] | None:
    """The object that `text` is the JSON of, or None."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


_parse_expected = lru_cache(maxsize=1024)(_parse)
"""Shared by the K samples of a turn, and never changed."""
