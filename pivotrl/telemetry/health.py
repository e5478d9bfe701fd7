"""The health gates of a running training: rank 0 judges each step, every rank hears the same."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pivotrl.disk import naming
from pivotrl.telemetry.gates import Event, Gates, Row
from pivotrl.telemetry.metrics import METRICS_FILE, keep_rows_before, read_metrics
from pivotrl.telemetry.run_files import HEALTH_FILE

if TYPE_CHECKING:
    from pivotrl.config import RunConfig
    from pivotrl.policy.parallel import World


class HealthStop(Exception):
    """A gate that is set to stop the run is out of bounds. The message is one line; the commands' exit code is 3."""


class Health:
    """Judges a run by its metrics, and remembers in `health.jsonl` what the gates said."""

    def __init__(self, run: Path, config: "RunConfig", world: "World", start: int) -> None:
        """Make the gates know the steps before `start` from `metrics.jsonl`, and drop what was said of later ones.
        Rank 0 only; nothing elsewhere.

        Args:
            run: the run's folder.
            start: first step that will be judged.
        """
        self._world, self._file = world, run / HEALTH_FILE
        if world.rank != 0:
            return
        self._gates = Gates(config.health, config.model.dtype)
        metrics = run / METRICS_FILE
        for row in read_metrics(metrics) if metrics.exists() else []:
            if row["step"] < start:
                self._gates.judge(row["step"], row)
        keep_rows_before(self._file, start)

    def check(self, step: int, row: Row) -> HealthStop | None:
        """Judge a step (collective).

        Args:
            row: its metrics; rank 0's count.

        Returns:
            On every rank, what to raise once the run is saved; None where it may go on.
        """
        from pivotrl.policy.agree import on_first

        said = on_first(self._world, lambda: self._judge(step, row))
        return HealthStop(said) if said else None

    def _judge(self, step: int, row: Row) -> str:
        events = self._gates.judge(step, row)
        for event in events:
            if event.action == "warn":
                print(event.line(), flush=True)
        if events:
            self._write(events)
        stops = [event for event in events if event.action == "stop"]
        if not stops:
            return ""
        saved = f"the run is saved after step {step + 1}; start it again to go on from there"
        keys = " ".join(f"health.{event.gate}.action=warn" for event in stops)
        return "; ".join([*(event.line() for event in stops), saved, f"with {keys} it only warns"])

    def _write(self, events: list[Event]) -> None:
        rows: list[dict[str, Any]] = [event.to_json() for event in events]
        with naming(self._file), open(self._file, "a", encoding="ascii", newline="\n") as file:
            file.write("".join(json.dumps(row) + "\n" for row in rows))
