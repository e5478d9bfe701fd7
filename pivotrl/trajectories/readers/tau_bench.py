"""tau-bench results: `{"task_id", "trial", "reward", "traj": [messages]}`, usually as one JSON array.

They carry no tool schemas. Where the user gives none, the smallest that admit the file's own calls are inferred.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pivotrl.trajectories.faults import Place, RowFault, excerpt
from pivotrl.trajectories.messages import normalise
from pivotrl.trajectories.readers.openai_chat import reward_of
from pivotrl.trajectories.records import Message, Tool, Trajectory
from pivotrl.trajectories.store import scan_rows
from pivotrl.trajectories.text import check_depth
from pivotrl.trajectories.tools import infer_tools


def read_row(row: dict[str, Any], index: int, place: Place, default_tools: list[Tool]) -> Trajectory:
    """One episode. Trials of one task share a group, so that a split never has the same task on both sides. Raises
    RowFault."""
    if "traj" not in row:
        raise RowFault(
            "no_messages", f"keys {excerpt(sorted(row))}", 'write {"task_id", "trial", "reward", "traj": [...]}'
        )
    task = row.get("task_id", index)
    return Trajectory(
        id=f"{task}-{row.get('trial', 0)}",
        messages=normalise(row["traj"]),
        tools=default_tools,
        file=place.file,
        row=place.row,
        reward=reward_of(row),
        group=f"tau_bench task {task}",
    )


def tools_of_file(path: str | Path) -> list[Tool]:
    """Schemas inferred from all well-formed calls of the file, successes and failures alike."""
    return infer_tools(_conversations(path))


def _conversations(path: str | Path) -> Iterator[list[Message]]:
    for _, row, _ in scan_rows(path):
        if isinstance(row, dict):
            try:
                check_depth(row, "the row")
                messages = normalise(row.get("traj"))
            except RowFault:
                continue  # reported when the row itself is read
            yield messages
