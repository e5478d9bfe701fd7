"""Does a pipetting robot do what the expert's did? The example of docs/verifiers.md."""

import json
import re
from dataclasses import replace
from typing import Any

from pivotrl.schema import Section
from pivotrl.verifiers.action import expert_calls, split_items
from pivotrl.verifiers.arguments import parse_actual, parse_expected
from pivotrl.verifiers.attempt import Attempt
from pivotrl.verifiers.base import Verdict, Verifier, VerifierConfig
from pivotrl.verifiers.params import Overridable
from pivotrl.verifiers.registry import build_verifier
from pivotrl.verifiers.robust.wellformed import format_fault
from pivotrl.verifiers.text import compare

VOLUME = re.compile(r"\s*(\d{1,6}(?:\.\d{1,6})?)\s*([num])l\s*", re.IGNORECASE | re.ASCII)
NANOLITRES = {"n": 1, "u": 1_000, "m": 1_000_000}


class Params(Section):
    well_order: bool = False
    """Wells must come in the expert's order."""


class FirstTry(Verifier):
    """Looks right, and pays for what it should not: the audit on the page finds it out."""

    def __init__(self, params: dict[str, Any]):
        self._params = Overridable(Params, params)

    def verify(self, attempt: Attempt, params: dict[str, Any] | None = None) -> Verdict:
        settings = self._params.of_row(params)
        expected, (actual, message) = expert_calls(attempt.expert), split_items(attempt.items)
        if not expected:
            return Verdict(0.0, "no_message") if message is None else Verdict(1.0, "message")
        given = [(call.get("name"), plain(parse_actual(call), settings.well_order)) for call in actual]
        for call in expected:
            if (call["name"], plain(parse_expected(call["arguments"]), settings.well_order)) not in given:
                return Verdict(0.0, "other_call", call["name"])
        return Verdict(1.0, "same_calls")


def plain(arguments: Any, well_order: bool = False) -> Any:
    """Arguments in one spelling. A model's may be anything, so every type is looked at before it is used."""
    if not isinstance(arguments, dict):
        return arguments
    volume, wells = arguments.get("volume"), arguments.get("wells")
    if isinstance(volume, str) and (found := VOLUME.fullmatch(volume)):
        arguments = arguments | {"volume": f"{round(float(found[1]) * NANOLITRES[found[2].lower()])} nL"}
    if isinstance(wells, list) and all(isinstance(well, str) for well in wells):
        wells = [well.upper() for well in wells]
        arguments = arguments | {"wells": wells if well_order else sorted(set(wells))}
    return arguments


class PipettingVerifier(FirstTry):
    """FirstTry with its holes closed: the completion is well formed, calls are counted, messages are read, and the
    prompt said again is none."""

    def verify(self, attempt: Attempt, params: dict[str, Any] | None = None) -> Verdict:
        if fault := format_fault(attempt):
            return Verdict(0.0, *fault)
        expected, (actual, message) = expert_calls(attempt.expert), split_items(attempt.items)
        if len(expected) != len(actual):
            return Verdict(0.0, "number_of_calls", f"{len(actual)} in place of {len(expected)}")
        if not expected and message is not None:
            if attempt.messages and message.strip() == attempt.messages[-1]["content"].strip():
                return Verdict(0.0, "copy_of_prompt")
            if difference := compare(attempt.expert["content"], message):
                return Verdict(0.0, *difference)
        return super().verify(attempt, params)


class OverRobust(Verifier):
    """Brings both sides to one spelling, and leaves the rest, parameters too, to a verifier of the table."""

    def __init__(self, params: dict[str, Any]):
        defaults = {"message": "similar"}
        self._robust = build_verifier(VerifierConfig(name="tool_call", preset="robust", params=defaults | params))

    def verify(self, attempt: Attempt, params: dict[str, Any] | None = None) -> Verdict:
        expert = attempt.expert
        if calls := expert_calls(expert):
            expert = {"type": "function_call_batch", "calls": [respelt(call) for call in calls]}
        items = [respelt(call) for call in attempt.items if isinstance(call, dict)]
        return self._robust.verify(replace(attempt, expert=expert, items=items), params)


def respelt(call: dict[str, Any]) -> dict[str, Any]:
    arguments = parse_actual(call)
    return call | {"arguments": json.dumps(plain(arguments))} if isinstance(arguments, dict) else call
