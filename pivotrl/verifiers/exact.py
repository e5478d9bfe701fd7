"""`exact`: the strict string match of the paper's ablation (r = 1 iff a = a*)."""

import json
from typing import Any

from pivotrl.schema import Section
from pivotrl.verifiers.action import expert_calls, other_kind, split_items
from pivotrl.verifiers.arguments import LONGEST_ARGUMENTS
from pivotrl.verifiers.attempt import Attempt
from pivotrl.verifiers.base import Verdict, Verifier
from pivotrl.verifiers.params import Overridable


class ExactParams(Section):
    """There are none."""


class ExactVerifier(Verifier):
    """Both actions are rendered in one way, and the strings compared.

    A message is its text without the white space around it, all messages in a row. A call is its name and its
    arguments, re-written with one choice of white space and escapes (a parser and an expert differ there without
    meaning to); the order of keys, the order of calls and every character of a value count.
    """

    def __init__(self, params: dict[str, Any]):
        self._params = Overridable(ExactParams, params)

    def verify(self, attempt: Attempt, params: dict[str, Any] | None = None) -> Verdict:
        self._params.of_row(params)
        actual, message = split_items(attempt.items)
        expected = expert_calls(attempt.expert)
        if (verdict := other_kind(expected, actual, message)) is not None:
            return verdict
        if expected:
            equal = len(expected) == len(actual) and all(
                wanted.get("name") == call.get("name") and _equal(wanted["arguments"], call.get("arguments"))
                for wanted, call in zip(expected, actual)
            )
        else:
            equal = attempt.expert["content"].strip() == _text(attempt.items).strip()
        return Verdict(1.0, "equal") if equal else Verdict(0.0, "not_equal")


def _text(items: list[Any]) -> str:
    messages = (item.get("content") for item in items if isinstance(item, dict) and item.get("type") == "message")
    return "".join(text for text in messages if isinstance(text, str))


def _equal(expected: str, actual: Any) -> bool:
    """Whether both render alike. What is too long to parse, or does not parse, stands as it is."""
    return isinstance(actual, str) and (expected == actual or _render(expected) == _render(actual))


def _render(arguments: str) -> str:
    if len(arguments) > LONGEST_ARGUMENTS:
        return arguments
    try:
        return json.dumps(json.loads(arguments, object_pairs_hook=_object, parse_int=_number, parse_float=_number))
    except (ValueError, RecursionError):
        return arguments


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Marked, so that none can stand for a number. Of a key that is written twice the last one counts."""
    return {"object": dict(pairs)}


def _number(text: str) -> dict[str, str]:
    """As it is written: 1.0 is not 1.00."""
    return {"number": text}
