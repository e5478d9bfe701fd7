"""The two JSON formats in which Terminus agents answer, checked as NeMo-Gym's OpenAPI schemas have it (Gym 07d6b0d0).

Every key is of its type (true is no number), required ones are there, and there are no others.
"""

from typing import Any, NamedTuple


class Format(NamedTuple):
    """Keys with their types, and the keys that may be left out."""

    answer: dict[str, type]
    command: dict[str, type]
    optional: frozenset[str] = frozenset()


FORMATS = {
    "terminus_1": Format(
        {"state_analysis": str, "explanation": str, "commands": list, "is_task_complete": bool},
        {"keystrokes": str, "is_blocking": bool, "timeout_sec": float},
    ),
    "terminus_2": Format(
        {"analysis": str, "plan": str, "commands": list, "task_complete": bool},
        {"keystrokes": str, "duration": float},
        frozenset({"task_complete", "duration"}),
    ),
}
"""By the name of the harness, which a row's metadata gives."""


def format_fault(answer: dict[str, Any], harness: str) -> str:
    """What of an answer does not fit the harness's format, in one line; empty where all does."""
    form = FORMATS[harness]
    fault = _object_fault(answer, form.answer, form.optional)
    if fault:
        return fault
    faults = (_object_fault(command, form.command, form.optional) for command in answer["commands"])
    return next((f"a command: {fault}" for fault in faults if fault), "")


def keystrokes(answer: dict[str, Any]) -> list[str]:
    """Those of every command of a well-formed answer."""
    return [command["keystrokes"] for command in answer["commands"]]


def says_complete(answer: dict[str, Any]) -> bool:
    """Whether a well-formed answer ends the task."""
    return bool(answer.get("task_complete") or answer.get("is_task_complete"))


def _object_fault(value: Any, types: dict[str, type], optional: frozenset[str]) -> str:
    if not isinstance(value, dict):
        return "not an object"
    if not value.keys() <= types.keys():
        return "unknown keys"
    for key, kind in types.items():
        if key not in value:
            if key in optional:
                continue
            return f"no {key}"
        if type(value[key]) is not kind and not (kind is float and type(value[key]) is int):
            return f"{key} is {type(value[key]).__name__}"
    return ""
