"""Does a pipetting robot do what the expert's did? The example of docs/verifiers.md."""

import re
from typing import Any

from pivotrl.verifiers.action import expert_calls, split_items
from pivotrl.verifiers.arguments import parse_actual, parse_expected
from pivotrl.verifiers.attempt import Attempt
from pivotrl.verifiers.base import Verdict, Verifier
from pivotrl.verifiers.text import compare

VOLUME = re.compile(r"\s*(\d{1,6}(?:\.\d{1,6})?)\s*([num])l\s*", re.IGNORECASE | re.ASCII)
NANOLITRES = {"n": 1, "u": 1_000, "m": 1_000_000}


class FirstTry(Verifier):
    """Looks right, and pays for what it should not: the audit on the page finds it out."""

    def __init__(self, params: dict[str, Any]):
        refuse(params)

    def verify(self, attempt: Attempt, params: dict[str, Any] | None = None) -> Verdict:
        refuse(params)
        expected, (actual, message) = expert_calls(attempt.expert), split_items(attempt.items)
        if not expected:
            return Verdict(0.0, "no_message") if message is None else Verdict(1.0, "message")
        for wanted in expected:
            if not any(same_call(wanted, call) for call in actual):
                return Verdict(0.0, "other_call", wanted["name"])
        return Verdict(1.0, "same_calls")


class PipettingVerifier(FirstTry):
    """FirstTry with its holes closed: calls are counted, messages are read, and the prompt said again is none."""

    def verify(self, attempt: Attempt, params: dict[str, Any] | None = None) -> Verdict:
        expected, (actual, message) = expert_calls(attempt.expert), split_items(attempt.items)
        if len(expected) != len(actual):
            return Verdict(0.0, "number_of_calls", f"{len(actual)} in place of {len(expected)}")
        if not expected and message is not None:
            if attempt.messages and message.strip() == attempt.messages[-1]["content"].strip():
                return Verdict(0.0, "copy_of_prompt")
            if difference := compare(attempt.expert["content"], message):
                return Verdict(0.0, *difference)
        return super().verify(attempt, params)


def refuse(params: dict[str, Any] | None) -> None:
    if params:
        raise ValueError(f"verifier.params.{next(iter(params))}: this verifier has no parameters; leave it out")


def same_call(wanted: dict[str, Any], call: dict[str, Any]) -> bool:
    """The same tool with the same arguments, volumes in whichever unit, wells in whichever order."""
    expected = plain(parse_expected(wanted["arguments"]))
    return call.get("name") == wanted["name"] and plain(parse_actual(call)) == expected


def plain(arguments: Any) -> Any:
    """Arguments in one spelling. A model's may be anything, so every type is looked at before it is used."""
    if not isinstance(arguments, dict):
        return arguments
    volume, wells = arguments.get("volume"), arguments.get("wells")
    if isinstance(volume, str) and (found := VOLUME.fullmatch(volume)):
        arguments = arguments | {"volume": round(float(found[1]) * NANOLITRES[found[2].lower()])}
    if isinstance(wells, list) and all(isinstance(well, str) for well in wells):
        arguments = arguments | {"wells": sorted({well.upper() for well in wells})}
    return arguments
