"""The rows of tools/score.py: what the expert did, what a model did there, and how the row wants to be judged.

A model's half (`response`, `text`) never makes a row bad, whatever is inside; the rest of a row comes from a person's
file, and is checked as the readers of trajectories check theirs.
"""

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from pivotrl.trajectories.actions import check_action
from pivotrl.trajectories.faults import Place, RowFault, excerpt
from pivotrl.trajectories.messages import normalise
from pivotrl.trajectories.readers.nemo_gym import chat_messages
from pivotrl.trajectories.readers.openai_chat import verifier_of
from pivotrl.trajectories.records import Action, Message, Rejected, Tool, Turn
from pivotrl.trajectories.store import scan_rows
from pivotrl.trajectories.text import check_characters, check_depth
from pivotrl.trajectories.tools import normalise_tools
from pivotrl.trajectories.turns import TurnReader
from pivotrl.verifiers.attempt import Attempt, Item
from pivotrl.verifiers.base import VerifierConfig
from pivotrl.verifiers.output import is_chat_message, output_items
from pivotrl.verifiers.registry import VERIFIERS, row_config

RowId = str | int | float
Parse = Callable[[str, list[Tool]], list[Item]]
"""A raw completion and the turn's tools to output items (`pivotrl.rollout.parsing.ActionParser.parse`)."""
MODELS_KEYS = ("response", "text")
TRAJECTORY_KEYS = ("messages", "trajectory", "history", "steps", "conversations", "traj")
"""Keys that hold a whole trajectory, in one format or another."""


@dataclass(frozen=True, slots=True)
class ScoreRow:
    """A row that can be judged."""

    id: RowId
    """The row's own; else its 0-based place among all rows of the file."""
    place: Place
    config: VerifierConfig
    """The run's section, with the row's own choice of verifier laid over it."""
    params: dict[str, Any]
    """The row's overrides of the verifier's parameters."""
    attempt: Attempt


class BadRow(NamedTuple):
    """A row that cannot be judged."""

    id: RowId
    rejected: Rejected

    def to_json(self) -> dict[str, Any]:
        return self.rejected.to_json() | {"id": self.id}


class RowReader:
    """The rows of one JSON Lines file, or of one JSON array, streamed; each pass gives the same."""

    def __init__(self, path: str | Path, run: VerifierConfig, parse: Parse | None):
        """`parse` reads raw completions; None reads the expert's half alone, for the audit, which needs no answers."""
        self.path, self._run, self._parse = path, run, parse

    def __iter__(self) -> Iterator[ScoreRow | BadRow]:
        """Raises ValueError where the file cannot be read, or stops being JSON."""
        name = Path(self.path).name
        for index, (where, row, fault) in enumerate(scan_rows(self.path)):
            identity: RowId = index
            try:
                if fault or not isinstance(row, dict):
                    found = fault or f"a {type(row).__name__}"
                    raise RowFault("malformed_json", found, "write one JSON object a row")
                identity = _identity(row, index)
                yield self._read(row, identity, Place(name, where))
            except RowFault as error:
                yield BadRow(identity, error.at(Place(name, where)))

    def _read(self, row: dict[str, Any], identity: RowId, place: Place) -> ScoreRow:
        known = {key: value for key, value in row.items() if key not in MODELS_KEYS}
        check_depth(known, "the row")
        check_characters(known, "the row")
        if isinstance(known.get("turn"), dict):  # a line of pivots.jsonl
            known = known["turn"] | known
        expert = _expert(known)
        tools, messages = _history(known)
        items, text = _answer(row, tools, self._parse) if self._parse else ([], None)
        config, params = _verifier(known, self._run)
        metadata = _object(known, "metadata")
        return ScoreRow(identity, place, config, params, Attempt(expert, items, text, tools, messages, metadata))


class TurnRows:
    """The expert's turns of trajectory files as rows without an answer, for the audit."""

    def __init__(self, reader: TurnReader, run: VerifierConfig):
        self._reader, self._run = reader, run

    def __iter__(self) -> Iterator[ScoreRow | BadRow]:
        for turn in self._reader:
            if isinstance(turn, Rejected):
                yield BadRow(turn.id, turn)
                continue
            try:
                yield self._row(turn)
            except RowFault as fault:
                yield BadRow(turn.id, fault.at(Place.parse(turn.source), turn.id))

    def _row(self, turn: Turn) -> ScoreRow:
        config, params = _verifier({"verifier": turn.verifier}, self._run)
        attempt = Attempt(turn.expert, [], None, turn.tools, turn.messages, turn.metadata)
        return ScoreRow(turn.id, Place.parse(turn.source), config, params, attempt)


def _identity(row: dict[str, Any], index: int) -> RowId:
    turn = row.get("turn")
    identity = row.get("id", turn.get("id") if isinstance(turn, dict) else None)
    if identity is None:
        return index
    number = (
        isinstance(identity, int | float) and not isinstance(identity, bool) and abs(identity) <= sys.float_info.max
    )
    if not number and not isinstance(identity, str):
        raise RowFault("bad_id", f"id is {excerpt(identity)}", "write a string or a number, or leave the key out")
    return identity


def _expert(row: dict[str, Any]) -> Action:
    """The expert's action: the row's, or, as for NeMo-Gym's `swe_pivot` and `terminus_judge`, its metadata's. A call
    without `arguments` has none, as for `swe_pivot`."""
    metadata = row["metadata"] if isinstance(row.get("metadata"), dict) else {}
    action = next((row[key] for key in ("expected_action", "expert") if row.get(key) is not None), None)
    answers = (found["expected_answer"] for found in (row, metadata) if found.get("expected_answer") is not None)
    answer = next(answers, None)
    if action is None and answer is None:
        action = metadata.get("expected_action")
    if action is not None:
        if isinstance(action, dict) and action.get("type") == "function_call":
            action = {"arguments": "{}"} | action
        return check_action(action)
    if answer is None:
        write = "write the expert's action as expected_action, or its text as expected_answer"
        if any(isinstance(row.get(key), list) for key in TRAJECTORY_KEYS):
            write = (
                f"whole trajectories go to --audit --trajectories FILE, without --rows; for a row of one turn, {write}"
            )
        raise RowFault("no_expected_action", f"keys {excerpt(sorted(row))}", write)
    return check_action({"type": "message", "content": answer})


def _history(row: dict[str, Any]) -> tuple[list[Tool], list[Message]]:
    """The turn's tools and the messages before it: from NeMo-Gym's request, or in OpenAI's form, or none."""
    request = _object(row, "responses_create_params")
    tools = normalise_tools(row.get("tools") or request.get("tools"))
    if row.get("messages"):
        return tools, normalise(row["messages"])
    return tools, normalise(chat_messages(request)) if request.get("input") else []


def _answer(row: dict[str, Any], tools: list[Tool], parse: Parse) -> tuple[list[Item], str | None]:
    """What the model did, as items, and the completion as it was written where the row has it."""
    response, text = (row.get(key) for key in MODELS_KEYS)
    if response is not None and text is not None:
        raise RowFault(
            "both_given",
            f"response is {excerpt(response)} and text is {excerpt(text)}",
            "write one of them: response where the output is parsed, text where it is as the model wrote it",
        )
    if text is not None and not isinstance(text, str):
        raise RowFault("bad_text", f"text is {excerpt(text)}", "write the raw completion as a string")
    if text is not None:
        return parse(text, tools), text
    if isinstance(response, dict):
        response = [response] if is_chat_message(response) else response.get("output")
    if isinstance(response, list):
        return output_items(response), None
    given = row.get("response")
    raise RowFault(
        "no_answer",
        "neither response nor text" if given is None else f"response is {excerpt(given)}",
        "write what a model did there: response, a list of Responses-API output items or a chat message, or text, a "
        "raw completion; rows of data have neither, and --audit needs none",
    )


def _verifier(row: dict[str, Any], run: VerifierConfig) -> tuple[VerifierConfig, dict[str, Any]]:
    """The verifier that judges the row, and the row's parameters for it: `params` over `verifier.params`, over the
    `threshold` that NeMo-Gym's terminal rows may carry."""
    own = verifier_of(row)
    try:
        config = row_config(run, own)
    except ValueError as error:
        found, _, write = str(error).partition("; ")
        raise RowFault("bad_verifier", found, write) from None
    params = own.get("params", {}) | _object(row, "params")
    preset = config.preset or next(iter(VERIFIERS.get(config.name, ())), None)
    if (config.name, preset) == ("terminal", "nemo_gym") and row.get("threshold") is not None:
        params = {"threshold": row["threshold"]} | params
    return config, params


def _object(row: dict[str, Any], key: str) -> dict[str, Any]:
    value = row.get(key)
    if value is not None and not isinstance(value, dict):
        raise RowFault(f"bad_{key}", f"{key} is {excerpt(value)}", "write an object, or leave the key out")
    return value or {}
