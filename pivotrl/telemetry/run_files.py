"""What a run folder holds, read for the report: every file is optional, and what is missing or broken is said."""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pivotrl.telemetry.metrics import METRICS_FILE, read_metrics


@dataclass(slots=True)
class RunFiles:
    """A field is empty where its file is missing or cannot be used; `missing` then says so."""

    name: str
    summary: dict[str, Any] = field(default_factory=dict)
    """`summary.json`: name -> number or text, of the whole run."""
    metrics: list[dict[str, Any]] = field(default_factory=list)
    """`metrics.jsonl`: one row a step."""
    pivots: dict[str, Any] = field(default_factory=dict)
    """`pivots/summary.json`."""
    evaluation: dict[str, Any] = field(default_factory=dict)
    """`evaluation.json`: {"base": E, "trained": E}, E = {"turn_reward", "task_success", "families": {name: share}}."""
    examples: list[dict[str, Any]] = field(default_factory=list)
    """`examples.json`: [{"id", "prompt", "expert", "failing", "succeeding"}], each text or JSON."""
    config: str = ""
    """`config.yaml`, as it was written."""
    health: list[dict[str, Any]] = field(default_factory=list)
    """`health.jsonl`: what the health gates said; a run in which none spoke has no such file."""
    missing: list[str] = field(default_factory=list)
    """One sentence for each file that is not shown, with the reason."""


HEALTH_FILE = "health.jsonl"
CONTENTS = {
    "evaluation.json": "the base model against the trained one",
    METRICS_FILE: "the curves over steps",
    "pivots/summary.json": "how the pivots were selected",
    "examples.json": "turns to read",
    "config.yaml": "the configuration",
    "summary.json": "the totals of the run",
}


def read_run(run_dir: str | Path) -> RunFiles:
    """Read whatever the folder has.

    Raises:
        ValueError: the folder does not exist, or has none of the files.
    """
    folder = Path(run_dir)
    if not folder.is_dir():
        raise ValueError(f"{folder}: no such folder; give the folder of a run (its config calls it `output`)")
    run = RunFiles(folder.resolve().name)
    run.summary = _read(run, folder, "summary.json", dict) or {}
    run.metrics = _read(run, folder, METRICS_FILE, list) or []
    run.pivots = _read(run, folder, "pivots/summary.json", dict) or {}
    run.evaluation = _read(run, folder, "evaluation.json", dict) or {}
    examples = _read(run, folder, "examples.json", list) or []
    run.examples = [example for example in examples if isinstance(example, dict)]
    run.config = _read(run, folder, "config.yaml", str) or ""
    if len(run.missing) == len(CONTENTS):
        raise ValueError(f"{folder}: holds none of {', '.join(CONTENTS)}; give the folder of a run")
    if (folder / HEALTH_FILE).exists():
        run.health = _read(run, folder, HEALTH_FILE, list) or []
    return run


def _read(run: RunFiles, folder: Path, name: str, kind: type) -> Any:
    path = folder / name
    try:
        if not path.exists():
            raise ValueError("is not there")
        if kind is str:
            value: Any = path.read_text(encoding="utf-8", errors="backslashreplace")
        elif name in (METRICS_FILE, HEALTH_FILE):
            value = read_metrics(path)
        else:
            value = json.loads(path.read_bytes())
        if not isinstance(value, kind):
            raise ValueError(f"holds a {type(value).__name__} where a {kind.__name__} belongs")
        return value
    except (ValueError, OSError, RecursionError) as error:
        words = CONTENTS.get(name, "what the health gates said")
        run.missing.append(f"{words[0].upper()}{words[1:]}: {name} {_reason(error, path)}.")
        return None


def _reason(error: Exception, path: Path) -> str:
    if isinstance(error, json.JSONDecodeError | UnicodeDecodeError):
        return f"is not valid JSON ({error})"
    return str(error).removeprefix(f"{path}:")
