"""`state.json`: how far a run came and whether it is complete, for the batch script that decides on another attempt."""

from pathlib import Path

from pivotrl.trajectories.store import write_json

NAME = "state.json"


def write(folder: Path, step: int, steps: int, stopped: str = "") -> None:
    """Say where a run stands; atomic. slurm/job.sh reads `finished` and `step` by these names, one a line.

    Args:
        folder: the run's folder, or the selection's.
        step: finished steps (a selection: finished turns).
        steps: of how many.
        stopped: why it stopped before them; "" while it runs.
    """
    folder.mkdir(parents=True, exist_ok=True)
    write_json(folder / NAME, {"finished": step >= steps, "step": step, "steps": steps, "stopped": stopped})
