"""`swe_pivot`: steps of a coding agent, as NVIDIA NeMo-Gym's `swe_pivot` judges them (Gym 07d6b0d0), corner cases
included:

- the first call counts, and the others are free; names match by case or by category (`tool_categories`);
- an edit has the same sub-command, the same last two parts of the path, and, for `view`, 80 % of the expected lines; a
  shell command the same program, one shared path (by its last three parts) where both have paths, and similarity 0.3;
  a search or a read the same last three parts; what one side leaves out is not compared;
- the text of the edit, or the command, is similar by `sequence.similarity` over its first 2,000 characters;
- `continuous`: partial credit for partial similarity, less for long edits.

Arguments that are not JSON count as none at all, so that a call without its command earns (NeMo-Gym's issue 3134); the
preset `robust` is another verifier. One thing is added: arguments of over a million characters earn 0 (`too_long`).
"""

import json
from collections.abc import Callable
from typing import Any, Literal, NamedTuple

from pydantic import Field

from pivotrl.schema import Section
from pivotrl.trajectories.faults import excerpt
from pivotrl.verifiers.arguments import LONGEST_ARGUMENTS
from pivotrl.verifiers.attempt import Attempt, Item
from pivotrl.verifiers.base import Verdict, Verifier
from pivotrl.verifiers.params import Overridable
from pivotrl.verifiers.sequence import similarity
from pivotrl.verifiers.swe_arguments import (
    COMMAND_KEYS,
    PATH_KEYS,
    edited_text,
    first_of,
    line_range,
    parse,
    parse_expected,
    path_end,
    paths_in,
    verb,
)
from pivotrl.verifiers.tool_categories import UNKNOWN, category

COMPARED = 2000
"""Characters of a text that are compared."""
COMMAND_FLOOR = 0.3
"""Similarity below which a command has another target."""
LINES_SHARED = 0.8
"""Share of the expected lines that a view must cover."""
LONG_EDIT = 500
"""Characters from which on an edit has the whole penalty."""


class SwePivotParams(Section):
    """NeMo-Gym's parameters, under its names."""

    reward_mode: Literal["binary", "continuous"] = "binary"
    """All or nothing, or partial credit between the two similarities."""
    enable_target_match: bool = True
    """Compare sub-command, path, lines, program. Off, with `enable_argument_similarity` off: the kind of tool alone."""
    enable_argument_similarity: bool = True
    """Compare the text of edits and commands."""
    similarity_threshold: float = 0.4
    """`continuous`: similarity from which on there is credit, 0.5 there."""
    similarity_full_credit: float = 0.8
    """Similarity of the whole reward."""
    enable_diff_size_shaping: bool = True
    """`continuous`: take from the reward of long edits."""
    diff_size_alpha: float = Field(0.1, ge=0, le=1)
    """`continuous`: the share that an edit of 500 characters or more loses."""


class _Call(NamedTuple):
    name: str
    category: str
    arguments: Any


class SwePivotVerifier(Verifier):
    """See the module's docstring. Reasons are NeMo-Gym's failure keys, `equivalent`, `partly_equivalent`,
    `unusable_arguments` (where NeMo-Gym meets an exception, its `unknown_error`), and `too_long`."""

    def __init__(self, params: dict[str, Any]):
        self._params = Overridable(SwePivotParams, params)

    def verify(self, attempt: Attempt, params: dict[str, Any] | None = None) -> Verdict:
        settings = self._params.of_row(params)
        try:
            return _judge(attempt, settings)
        except (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError) as error:
            return Verdict(0.0, "unusable_arguments", f"{type(error).__name__}: {excerpt(str(error))}")


def _judge(attempt: Attempt, params: SwePivotParams) -> Verdict:
    call = _expected_call(attempt)
    if call is None:
        return Verdict(0.0, "expected_action_invalid", "the expert's action is not one call")
    expected = _read(call, parse_expected)
    items = (item for item in attempt.items or () if isinstance(item, dict))
    call = next((item for item in items if item.get("type") == "function_call"), None)
    if call is None:
        return Verdict(0.0, "model_output_invalid", "no call")
    arguments = call.get("arguments")
    if isinstance(arguments, str) and len(arguments) > LONGEST_ARGUMENTS:
        return Verdict(0.0, "too_long", f"arguments of {len(arguments)} characters")
    actual = _read(call)
    same_name = actual.name.lower() == expected.name.lower()
    if not same_name and (actual.category == UNKNOWN or actual.category != expected.category):
        return Verdict(0.0, "tool_name_mismatch", f"{excerpt(actual.name)} for {excerpt(expected.name)}")
    if params.enable_target_match:
        fault = _target_fault(actual, expected)
        if fault:
            return Verdict(0.0, "target_mismatch", fault)
    reward = 1.0
    if params.enable_argument_similarity:
        low, full = params.similarity_threshold, params.similarity_full_credit
        partial = params.reward_mode == "continuous"
        score = _likeness(actual, expected, None if partial else (full,))
        if partial and low <= score < full:
            reward = 0.5 + 0.5 * (score - low) / (full - low)
        elif score < full:
            return Verdict(0.0, "similarity_below_threshold", f"below {low if partial else full}")
    if params.enable_diff_size_shaping and params.reward_mode == "continuous" and actual.category == "edit":
        reward *= 1.0 - params.diff_size_alpha * min(len(edited_text(actual.arguments)) / LONG_EDIT, 1.0)
    return Verdict(reward, "equivalent" if reward == 1.0 else "partly_equivalent")


def _expected_call(attempt: Attempt) -> Item | None:
    """The expert's call; or the one whose JSON a message is, NeMo-Gym's `expected_answer`; or the metadata's."""
    if attempt.expert.get("type") == "function_call":
        return attempt.expert
    content = attempt.expert.get("content")
    if isinstance(content, str):
        try:
            action = json.loads(content)
        except json.JSONDecodeError:
            action = None
        if isinstance(action, dict) and action.get("type") == "function_call" and "name" in action:
            return action
    action = attempt.metadata.get("expected_action")
    return action if isinstance(action, dict) and action.get("type") == "function_call" else None


def _read(call: Item, parser: Callable[[Any], Any] = parse) -> _Call:
    """Raises AttributeError for a name that is no text, LookupError where there is none, and as `parse`."""
    return _Call(call["name"], category(call["name"]), parser(call.get("arguments")))


def _target_fault(actual: _Call, expected: _Call) -> str:
    """What the call aims at that the expert's does not; empty where it does. Both are of one category."""
    if expected.category == "edit":
        return _edit_fault(actual.arguments, expected.arguments)
    if expected.category == "bash":
        return _command_fault(*(first_of(call.arguments, COMMAND_KEYS) for call in (actual, expected)))
    if expected.category in ("read", "search"):
        found, wanted = (first_of(call.arguments, PATH_KEYS) for call in (actual, expected))
        return _path_fault(found, wanted, 3)
    return ""


def _path_fault(found: str, wanted: str, parts: int) -> str:
    if found and wanted and path_end(found, parts) != path_end(wanted, parts):
        return f"path {excerpt(found)}"
    return ""


def _edit_fault(actual: Any, expected: Any) -> str:
    found, wanted = (str(arguments.get("command", "")) for arguments in (actual, expected))
    if found and wanted and found != wanted:
        return f"command {excerpt(found)} for {excerpt(wanted)}"
    fault = _path_fault(first_of(actual, PATH_KEYS), first_of(expected, PATH_KEYS), 2)
    if fault or not (found == wanted == "view"):
        return fault
    lines, wanted_lines = line_range(actual.get("view_range")), line_range(expected.get("view_range"))
    if lines and wanted_lines:
        shared = min(lines[1], wanted_lines[1]) - max(lines[0], wanted_lines[0])
        if max(0, shared) / max(1, wanted_lines[1] - wanted_lines[0]) < LINES_SHARED:
            return f"lines {excerpt(lines)} for {excerpt(wanted_lines)}"
    return ""


def _command_fault(actual: str, expected: str) -> str:
    found, wanted = verb(actual), verb(expected)
    if found and wanted and found != wanted:
        return f"program {excerpt(found)} for {excerpt(wanted)}"
    paths, wanted_paths = ({path_end(path, 3) for path in paths_in(command)} for command in (actual, expected))
    if paths and wanted_paths and not paths & wanted_paths:
        return "no shared path"
    if actual and expected and _text_likeness(actual, expected, (COMMAND_FLOOR,)) < COMMAND_FLOOR:
        return f"another command {excerpt(actual)}"
    return ""


def _likeness(actual: _Call, expected: _Call, marks: tuple[float, ...] | None) -> float:
    """Similarity of what the two calls write or run; 1 for other kinds. `marks` as for `sequence.similarity`."""
    if expected.category == "bash":
        found, wanted = (first_of(call.arguments, COMMAND_KEYS) for call in (actual, expected))
        return _text_likeness(found, wanted, marks) if found and wanted else 1.0
    if expected.category != "edit":
        return 1.0
    old, wanted_old = (str(call.arguments.get("old_str", "")) for call in (actual, expected))
    new, wanted_new = (str(call.arguments.get("new_str", "")) for call in (actual, expected))
    if (old or new) and (wanted_old or wanted_new):
        return min(_text_likeness(old, wanted_old, marks), _text_likeness(new, wanted_new, marks))
    return _text_likeness(edited_text(actual.arguments), edited_text(expected.arguments), marks)


def _text_likeness(actual: str, expected: str, marks: tuple[float, ...] | None) -> float:
    found = similarity(actual[:COMPARED], expected[:COMPARED], marks)
    assert found is not None, "texts of this length have few enough pairs"
    return found
