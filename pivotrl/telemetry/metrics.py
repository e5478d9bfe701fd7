"""The numbers of each step: a JSON Lines file, TensorBoard, Weights & Biases, and one terminal line."""

import json
import math
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, Self

from pivotrl.disk import naming, write_all
from pivotrl.telemetry.config import TelemetryConfig
from pivotrl.telemetry.progress import format_seconds
from pivotrl.telemetry.wandb_run import WandbRun
from pivotrl.trajectories.store import write_json

METRICS_FILE = "metrics.jsonl"
NEXT_FILE = "metrics.next.json"
"""The row of the step that is being saved."""
TERMINAL_METRICS = {
    "reward": ("reward", ".3f"),
    "cross_entropy": ("cross entropy", ".4f"),
    "signal_share": ("signal", ".2f"),
    "entropy": ("entropy", ".3f"),
    "kl": ("kl", ".2g"),
    "clip_share": ("clip", ".3f"),
    "gap": ("gap", ".1e"),
    "grad_norm": ("grad", ".3g"),
    "tokens_per_second": ("tok/s", ",.0f"),
}
"""Metric -> (its name on the terminal line, its format)."""


RUNNING_TOTALS = ("rollout_turns",)
"""Metrics that a step gives for itself, and of which its row has the sum over all steps up to it."""


class Span(NamedTuple):
    """One time that a phase ran."""

    name: str
    began: float
    """Seconds since the epoch."""
    seconds: float


class PhaseTimer:
    """Wall seconds of one step's phases. A phase entered twice adds up.

    Host clocks only: a phase that leaves work on the GPU is charged to the phase that waits for it.
    """

    def __init__(self, step: int = 0, entered: Callable[[str], object] = lambda name: None) -> None:
        """`entered` hears of each phase as it begins."""
        self.step = step
        self.seconds: dict[str, float] = {}
        self.spans: list[Span] = []
        """Every phase in the order of their ends; a phase entered twice is there twice."""
        self._entered = entered
        self._started = time.perf_counter()

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        self._entered(name)
        began, started = time.time(), time.perf_counter()
        try:
            yield
        except BaseException as error:
            error.add_note(f"in the {name} of step {self.step + 1}")  # policy/lost.py says it to users
            raise
        finally:
            elapsed = time.perf_counter() - started
            self.seconds[name] = self.seconds.get(name, 0.0) + elapsed
            self.spans.append(Span(name, began, elapsed))

    def with_total(self) -> dict[str, float]:
        """Seconds per phase, and under "total" all that passed since this timer was made."""
        return self.seconds | {"total": time.perf_counter() - self._started}


class MetricsWriter:
    """Records one row a step on rank 0; does nothing on other ranks.

    A resumed run opens it with the step it starts at: rows of that step and later ones, and a last line that a kill
    tore, are dropped, so the file reads as if the run had never stopped. A step that was saved and ended before its row
    was written has it from `prepare`.
    """

    def __init__(
        self, run_dir: str | Path, config: TelemetryConfig, rank: int = 0, start: int = 0, steps: int | None = None
    ) -> None:
        """
        Args:
            start: first step that will be written.
            steps: step the run ends before; gives the terminal line its total and ETA.

        Raises:
            ValueError: `telemetry.wandb_project` is set, and wandb is not installed or nobody is logged in.
        """
        self._steps = steps
        self._sinks: list[Any] = []
        self._file = None
        if rank != 0:
            return
        run_dir, file = Path(run_dir), Path(run_dir) / METRICS_FILE
        if config.wandb_project is not None:
            rows = read_metrics(file) if file.exists() else []
            earlier = [row for row in rows if row["step"] < start]
            self._sinks.append(WandbRun(run_dir, config.wandb_project, earlier))
        if config.tensorboard:
            self._sinks.append(_TensorBoardSink(run_dir, start))
        run_dir.mkdir(parents=True, exist_ok=True)
        self._next = run_dir / NEXT_FILE
        keep_rows_before(file, start)
        _recover(file, self._next, start)
        self._totals = last_totals(file)
        self._path, self._file = file, open(file, "ab", buffering=0)  # noqa: SIM115

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def prepare(self, step: int, metrics: Mapping[str, float], seconds: Mapping[str, float] | None = None) -> None:
        """Keep what is known of a step's row before its checkpoint counts, for a run that ends between the two. As
        `write`."""
        if self._file is not None:
            write_json(self._next, self._row(step, metrics, seconds))

    def write(self, step: int, metrics: Mapping[str, float], seconds: Mapping[str, float] | None = None) -> None:
        """Record one step.

        Args:
            metrics: name -> number. A number that is not finite is written as null, which JSON has and NaN is not; of
                `RUNNING_TOTALS` the sum so far is written.
            seconds: phase -> wall seconds (`PhaseTimer.with_total()`), recorded as `seconds.<phase>`.
        """
        if self._file is None:
            return
        row = self._row(step, metrics, seconds)
        self._totals |= {name: row[name] for name in RUNNING_TOTALS if name in row}
        with naming(self._path):
            write_all(self._file, (json.dumps(row) + "\n").encode("ascii"))
        for sink in self._sinks:
            sink.write(step, {name: value for name, value in row.items() if value is not None and name != "step"})
        print(terminal_line(row, self._steps), flush=True)

    def _row(
        self, step: int, metrics: Mapping[str, float], seconds: Mapping[str, float] | None
    ) -> dict[str, float | int | None]:
        phases = {f"seconds.{name}": value for name, value in (seconds or {}).items()}
        totals = {name: self._totals[name] + metrics[name] for name in RUNNING_TOTALS if name in metrics}
        return {"step": step} | {name: _plain(value) for name, value in {**metrics, **totals, **phases}.items()}

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None
        for sink in self._sinks:
            sink.close()
        self._sinks = []


def _recover(path: Path, prepared: Path, start: int) -> None:
    """Append the row of the step before `start` where the run ended after its checkpoint and before its row."""
    try:
        row = json.loads(prepared.read_bytes())
    except (FileNotFoundError, ValueError):  # a machine that lost power may have left half of it: then only that row
        return
    rows = read_metrics(path) if path.exists() else []
    if row["step"] == start - 1 and (not rows or rows[-1]["step"] < start - 1):
        with naming(path), open(path, "a", encoding="ascii", newline="\n") as file:
            file.write(json.dumps(row) + "\n")


def read_metrics(path: str | Path) -> list[dict[str, Any]]:
    """Rows of a metrics file in the order written. A torn last line, of a run that is going on or was killed, is
    skipped.

    Raises:
        ValueError: any other line is not a JSON object with a step.
    """
    lines = Path(path).read_bytes().split(b"\n")
    rows = []
    for number, line in enumerate(lines, start=1):
        if not line:
            continue
        try:
            row = json.loads(line)
            rows.append(row | {"step": int(row["step"])})
        except (ValueError, KeyError, TypeError):
            if number == len(lines):  # no newline after it
                break
            raise ValueError(f"{path}:{number}: not a row of metrics; remove that line") from None
    return rows


def keep_rows_before(path: Path, step: int) -> None:
    """Drop rows of `step` and later from a metrics file, and a torn last line; atomic. A missing file is left so."""
    if not path.exists():
        return
    kept = [row for row in read_metrics(path) if row["step"] < step]
    temporary = path.with_name(path.name + ".tmp")
    temporary.write_text("".join(json.dumps(row) + "\n" for row in kept), encoding="ascii")
    os.replace(temporary, path)


def last_totals(path: Path) -> dict[str, float]:
    """Of each of `RUNNING_TOTALS`, what the last row of a metrics file that has it says; 0 where none does."""
    rows = read_metrics(path) if path.exists() else []
    return {
        name: next((row[name] for row in reversed(rows) if row.get(name) is not None), 0) for name in RUNNING_TOTALS
    }


def terminal_line(row: Mapping[str, Any], steps: int | None = None) -> str:
    """One line of a step for people: the metrics that say whether the run is well, and where the time went."""
    total = "" if steps is None else f"/{steps}"
    words = [f"step {row['step'] + 1}{total}"]
    for name, (label, spec) in TERMINAL_METRICS.items():
        if row.get(name) is not None:
            words.append(f"{label} {row[name]:{spec}}")
    seconds = {name.removeprefix("seconds."): value for name, value in row.items() if name.startswith("seconds.")}
    if "total" in seconds:
        elapsed = seconds.pop("total")
        slowest = sorted(seconds, key=seconds.get, reverse=True)[:3]
        words.append(f"{elapsed:.1f} s (" + ", ".join(f"{name} {seconds[name]:.1f}" for name in slowest) + ")")
        if steps is not None and row["step"] + 1 < steps:
            words.append(f"about {format_seconds(elapsed * (steps - row['step'] - 1))} left")
    return "  ".join(words)


def _plain(value: Any) -> float | int | None:
    number = value.item() if hasattr(value, "item") else value
    return number if math.isfinite(number) else None


class _TensorBoardSink:
    def __init__(self, run_dir: Path, start: int) -> None:
        from torch.utils.tensorboard import SummaryWriter

        self._writer = SummaryWriter(str(run_dir / "tensorboard"), purge_step=start)

    def write(self, step: int, metrics: Mapping[str, float]) -> None:
        for name, value in metrics.items():
            self._writer.add_scalar(name.replace(".", "/"), value, step)

    def close(self) -> None:
        self._writer.close()
