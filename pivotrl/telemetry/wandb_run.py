"""A run's metrics in Weights & Biases: every attempt of a run goes on in the same W&B run."""

import importlib.util
import uuid
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

ID_FILE = "wandb_run_id"


class WandbRun:
    """One attempt's part of a W&B run, whose id is in `wandb_run_id` in the run's folder."""

    def __init__(self, run_dir: Path, project: str, earlier: Iterable[Mapping[str, Any]]) -> None:
        """
        Args:
            earlier: the rows of `metrics.jsonl` that this attempt goes on from. wandb's server has them; a file that
                it writes offline does not, and what a killed attempt wrote offline may be lost with it: they are logged
                again there, so that the newest offline folder holds the whole run.

        Raises:
            ValueError: wandb is not installed, or nobody is logged in.
        """
        spec = importlib.util.find_spec("wandb")
        if spec is None or spec.origin is None:  # a folder ./wandb, which wandb itself leaves behind, has no origin
            raise ValueError(
                f"telemetry.wandb_project is {project!r}, but wandb is not installed; "
                "run `pip install wandb`, or write `wandb_project: null`"
            )
        import wandb

        id_file = run_dir / ID_FILE
        if not id_file.exists():
            run_dir.mkdir(parents=True, exist_ok=True)
            written = id_file.with_suffix(".tmp")
            written.write_text(uuid.uuid4().hex[:12])
            written.replace(id_file)
        run_id = id_file.read_text().strip()
        try:
            self._run = wandb.init(project=project, name=run_dir.name, id=run_id, resume="allow", dir=str(run_dir))
        except (wandb.errors.UsageError, wandb.errors.AuthenticationError) as error:
            raise ValueError(
                f"telemetry.wandb_project is {project!r}, and wandb says: {error} Set WANDB_API_KEY, or "
                "WANDB_MODE=offline to write to files that `wandb sync` sends later, or write `wandb_project: null`"
            ) from None
        for row in earlier if self._run.offline else ():
            self.write(row["step"], {name: value for name, value in row.items() if value is not None})

    def write(self, step: int, metrics: Mapping[str, float]) -> None:
        self._run.log({name: value for name, value in metrics.items() if name != "step"}, step=step)

    def close(self) -> None:
        self._run.finish()
