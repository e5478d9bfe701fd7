"""OpenAI chat rows: `{"messages": [...], "tools": [...]}`, with `id`, `reward`, `verifier` and `metadata` where the
file has them; or a bare list of messages."""

import sys
from typing import Any

from pivotrl.trajectories.faults import Place, RowFault, excerpt
from pivotrl.trajectories.messages import normalise
from pivotrl.trajectories.metadata import small
from pivotrl.trajectories.records import Tool, Trajectory
from pivotrl.trajectories.tools import normalise_tools


def read_row(row: dict[str, Any], index: int, place: Place, default_tools: list[Tool]) -> Trajectory:
    """One row. Raises RowFault."""
    if "messages" not in row:
        raise RowFault("no_messages", f"keys {excerpt(sorted(row))}", 'write {"messages": [...], "tools": [...]}')
    return Trajectory(
        id=str(row.get("id", row.get("trajectory_id", index))),
        messages=normalise(row["messages"]),
        tools=normalise_tools(row.get("tools")) or default_tools,
        file=place.file,
        row=place.row,
        reward=reward_of(row),
        verifier=verifier_of(row),
        metadata=small(row.get("metadata")),
    )


def reward_of(row: dict[str, Any]) -> float | None:
    """The row's final reward; None where it has none. Raises RowFault."""
    reward = row.get("reward")
    if reward is not None and not (isinstance(reward, int | float) and abs(reward) <= sys.float_info.max):
        raise RowFault("bad_reward", f"reward is {excerpt(reward)}", "write a finite number, or leave the key out")
    return reward


def verifier_of(row: dict[str, Any]) -> dict[str, Any]:
    """The row's own choice of verifier, preset and parameters; empty where it has none. Raises RowFault."""
    verifier = row.get("verifier")
    if verifier is None:
        return {}
    if (
        not isinstance(verifier, dict)
        or not verifier.keys() <= {"name", "preset", "params"}
        or not isinstance(verifier.get("name", ""), str)
        or verifier.get("preset") not in (None, "nemo_gym", "robust")
        or not isinstance(verifier.get("params", {}), dict)
    ):
        raise RowFault(
            "bad_verifier",
            f"verifier is {excerpt(verifier)}",
            'write {"name": "tool_call", "preset": "robust", "params": {...}}, or leave the key out',
        )
    return verifier
