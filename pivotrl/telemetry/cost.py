"""The report's page on cost: what the selection of pivots and the training took, and both together."""

from typing import Any

from pivotrl.telemetry.page import number, table
from pivotrl.telemetry.progress import format_seconds
from pivotrl.telemetry.run_files import RunFiles

COUNTS = ("samples", "sampled_tokens", "seconds", "gpu_hours")
HEAD = ["", "samples", "sampled tokens", "time", "GPU-hours"]


def cost(run: RunFiles) -> str:
    """A row for each stage whose cost the run recorded, and their sum; nothing where there is none."""
    stages = {"selection": selection_cost(run.pivots), "training": training_cost(run.metrics)}
    stages = {name: found for name, found in stages.items() if found}
    if not stages:
        return ""
    rows = [_row(name, found) for name, found in stages.items()]
    if len(stages) > 1:
        rows.append(_row("<b>in all</b>", {key: _sum(stages, key) for key in COUNTS}))
    return (
        "<h2>What it cost</h2><p>Time is that on the clock, without the start of the processes; GPU-hours are ranks "
        "times time (on a CPU, hours of its processes). Prompts are not counted among the tokens.</p>"
        f'<div class="card">{table(HEAD, rows, {1, 2, 3, 4})}</div>'
    )


def selection_cost(summary: dict[str, Any]) -> dict[str, float]:
    """The numbers of a selection's `cost`; empty where the summary has none."""
    found = summary.get("cost")
    return {key: found[key] for key in COUNTS if _is_number(found.get(key))} if isinstance(found, dict) else {}


def training_cost(metrics: list[dict[str, Any]]) -> dict[str, float]:
    """Sums over the steps of metrics.jsonl; empty where there are none."""
    columns = {
        "samples": [row.get("samples") for row in metrics],
        "sampled_tokens": [row.get("response_tokens") for row in metrics],
        "seconds": [row.get("seconds.total") for row in metrics],
        "gpu_hours": [_gpu_hours(row) for row in metrics],
    }
    return {key: sum(values) for key, values in columns.items() if values and all(map(_is_number, values))}


def _gpu_hours(row: dict[str, Any]) -> float | None:
    ranks, seconds = row.get("ranks"), row.get("seconds.total")
    return ranks * seconds / 3600 if _is_number(ranks) and _is_number(seconds) else None


def _sum(stages: dict[str, dict[str, float]], key: str) -> float | None:
    """None where a stage did not record it: a part is no total."""
    values = [found.get(key) for found in stages.values()]
    return sum(values) if all(map(_is_number, values)) else None


def _row(name: str, found: dict[str, float | None]) -> list[str]:
    cells = [name]
    for key in COUNTS:
        value = found.get(key)
        cells.append("" if value is None else format_seconds(value) if key == "seconds" else number(value))
    return cells


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
