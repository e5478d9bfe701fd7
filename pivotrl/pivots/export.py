"""Pivots back to NVIDIA NeMo-Gym's rows, which `trajectories/readers/nemo_gym.py` reads as the same turns.

The row's keys are NeMo-Gym's; `verifier` (the row's own, where it has one), the `name` of a tool's result and
`pivotrl_profile` are ours, which its servers ignore. Items carry what NeMo-Gym's request models demand: an `id` for
reasoning, and `strict` and `parameters` for tools (null where unknown).
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pivotrl.pivots.store import PivotFile
from pivotrl.trajectories.actions import calls_of
from pivotrl.trajectories.readers.agents import agent_of_verifier
from pivotrl.trajectories.records import Message, Pivot, Tool
from pivotrl.trajectories.store import open_for_reading, parse_json, write_jsonl


def export(source: str | Path, out: str | Path) -> int:
    """Write a selection's pivots as NeMo-Gym rows, in order; `out` appears whole. Returns the number of rows.

    Args:
        source: a `pivots.jsonl`, or the folder that holds it; the `summary.json` beside it tells the run's verifier.
        out: the JSON Lines file to write.

    Raises ValueError where there are no pivots, a line is no pivot, or `out` cannot be written.
    """
    path = Path(source) / "pivots.jsonl" if Path(source).is_dir() else Path(source)
    pivots = PivotFile(path)
    for written in (Path(out), Path(f"{out}.tmp")):  # the second is where `write_jsonl` begins
        if written.exists() and written.samefile(path):
            raise ValueError(f"--out: {written} is the file of pivots itself; write another file")
    run_verifier = _run_verifier(path.parent / "summary.json")
    try:
        return write_jsonl(out, _rows(pivots, path, run_verifier))
    except OSError as error:
        raise ValueError(
            f"--out: {out} cannot be written ({error.strerror}); give a file in a folder that is"
        ) from None


def export_row(pivot: Pivot, run_verifier: dict[str, Any]) -> dict[str, Any]:
    """One pivot as a NeMo-Gym row.

    Args:
        pivot: the pivot.
        run_verifier: `{"name", ...}` of the run, for turns whose row named none; empty where it is not known.
    """
    turn, profile = pivot.turn, pivot.profile
    verifier = turn.verifier or run_verifier
    terminal = turn.expert["type"] == "message" and verifier.get("name") == "terminal"
    parallel = any(len(calls) > 1 for calls in [calls_of(turn.expert), *_calls_of_history(turn.messages)])
    passed = sum(reward >= 1 for reward in profile.rewards)
    row: dict[str, Any] = {
        "trajectory_id": turn.trajectory_id,
        "responses_create_params": {
            "input": list(_items(turn.messages)),
            "tools": [_flat(tool) for tool in turn.tools],
            "parallel_tool_calls": parallel,
        },
        **({"expected_answer": turn.expert["content"]} if terminal else {"expected_action": turn.expert}),
        "agent_ref": {"type": "responses_api_agents", "name": agent_of_verifier(verifier)},
        "pass_rate": passed / len(profile.rewards),
        "pass_rate_total": len(profile.rewards),
        "pass_rate_passed": passed,
        "pivotrl_profile": {
            "id": pivot.id,
            "source": turn.source,
            "rewards": profile.rewards,
            "mean": profile.mean,
            "variance": profile.variance,
            "policy": profile.policy,
            "sampling": profile.sampling,
        },
    }
    return row | {key: value for key in ("metadata", "verifier") if (value := getattr(turn, key))}


def _rows(pivots: PivotFile, path: Path, run_verifier: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for index in range(len(pivots)):
        pivot = pivots[index]
        try:
            yield export_row(pivot, run_verifier)
        except (KeyError, TypeError, AttributeError, ZeroDivisionError) as error:
            found = f"{type(error).__name__}: {error}"
            raise ValueError(f"{path}:{index + 1}: not a pivot ({found}); select the pivots anew") from None


def _run_verifier(path: Path) -> dict[str, Any]:
    """The `verifier` of a selection's summary; empty where there is none."""
    if not path.is_file():
        return {}
    with open_for_reading(path) as file:
        try:
            found = parse_json(file.read().decode("utf-8"))["verifier"]
            return {"name": str(found["name"])} | ({"params": found["params"]} if found["params"] else {})
        except (ValueError, KeyError, TypeError):
            raise ValueError(f"{path}: not a selection's summary; select the pivots anew, or remove it") from None


def _items(messages: list[Message]) -> Iterator[dict[str, Any]]:
    """The history as Responses-API items.

    An assistant's message is written, even empty, where it alone keeps two answers in a row apart or holds the place of
    one that did nothing.
    """
    before = ""
    for index, message in enumerate(messages):
        role = message["role"]
        if role == "tool":
            name = {"name": message["name"]} if "name" in message else {}
            result = {"type": "function_call_output", "call_id": message["tool_call_id"], "output": message["content"]}
            yield result | name
        elif role == "assistant":
            if message.get("reasoning_content"):
                summary = [{"type": "summary_text", "text": message["reasoning_content"]}]
                yield {"type": "reasoning", "id": f"rs_{index}", "summary": summary}
            calls = message.get("tool_calls", [])
            if message["content"] or not calls or before == "assistant":
                yield {"type": "message", "role": role, "content": message["content"]}
            for call in calls:
                yield {"type": "function_call", "call_id": call["id"], **call["function"]}
        else:
            yield {"type": "message", "role": role, "content": message["content"]}
        before = role


def _calls_of_history(messages: list[Message]) -> Iterator[list[dict[str, Any]]]:
    return (message["tool_calls"] for message in messages if "tool_calls" in message)


def _flat(tool: Tool) -> dict[str, Any]:
    """A tool in the flat form of the Responses API; its keys stay in their order, which templates show."""
    flat = {"type": "function", **tool["function"]}
    return flat | {key: None for key in ("parameters", "strict") if key not in flat}
