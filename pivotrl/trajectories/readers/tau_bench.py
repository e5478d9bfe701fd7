"""tau-bench results: `{"task_id", "trial", "reward", "traj": [messages]}`, usually as one JSON array.

They carry no tool schemas. Where the user gives none, the smallest that admit the file's own calls are inferred
(`readers/inferred.py`).
"""

from typing import Any

from pivotrl.trajectories.faults import Place, RowFault, excerpt
from pivotrl.trajectories.messages import normalise
from pivotrl.trajectories.readers.openai_chat import reward_of
from pivotrl.trajectories.records import Tool, Trajectory


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
