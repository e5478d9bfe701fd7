"""The report on verdicts by reason: their shares over the steps, and before training."""

from typing import Any

from pivotrl.pivots.reasons import OTHERS
from pivotrl.telemetry.charts import Series, stacked_chart
from pivotrl.telemetry.page import escape, number, percent, table
from pivotrl.telemetry.run_files import RunFiles

CHART_REASONS = 5
TABLE_REASONS = 15


def reasons(run: RunFiles) -> str:
    """Shares of the sampled actions by the verdict's reason: a chart over steps, and how they changed."""
    names = _by_frequency(run.metrics)
    if not names:
        return ""
    shown = [name for name in names if name != OTHERS][:CHART_REASONS]
    series = {name: _series(run.metrics, [name]) for name in shown}
    if len(shown) < len(names):
        series[OTHERS] = _series(run.metrics, [name for name in names if name not in shown])
    edge = max(1, len(run.metrics) // 10)
    first, last = run.metrics[:edge], run.metrics[-edge:]
    rows = []
    for name in names[:TABLE_REASONS]:
        before, after = _share(first, name), _share(last, name)
        earned = _mean_reward(run.metrics, name)
        change = f"{100 * (after - before):+.1f}"
        rows.append([escape(name), "" if earned is None else number(earned), percent(before), percent(after), change])
    steps = f"{edge} steps" if edge > 1 else "step"
    head = ["reason", "reward", "at first", "at last", "points"]
    note = f'<p class="soft">and {len(names) - TABLE_REASONS} more</p>' if len(names) > TABLE_REASONS else ""
    return (
        "<h2>Rewards by reason</h2><p>Shares of the sampled actions by the reason of their verdict. A reason that "
        "earns and grows while your benchmark does not is a hole in the verifier; one that earns nothing and stays is "
        "what the policy does not learn. The reasons are explained in docs/verifiers.md.</p>"
        '<div class="grid"><figure><h3>Shares over the steps</h3><figcaption>The most frequent reasons from below, all '
        f"others on top.</figcaption>{stacked_chart(series)}</figure>"
        f'<div class="card"><h3>From the first {steps} to the last</h3><p class="soft">The reward is the mean over the '
        f"run.</p>{table(head, rows, {1, 2, 3, 4})}{note}</div></div>"
    )


def selection_reasons(found: Any) -> str:
    """The table of `reasons` in a selection's summary; nothing where it has none."""
    if not isinstance(found, dict) or not found:
        return ""
    rows = []
    for name, reason in list(found.items())[:TABLE_REASONS]:
        if isinstance(reason, dict) and all(_is_number(reason.get(key)) for key in ("samples", "share", "mean_reward")):
            figures = [number(reason["samples"]), percent(reason["share"]), number(reason["mean_reward"])]
            rows.append([escape(name), *figures])
    return table(["", "samples", "share", "mean reward"], rows, {1, 2, 3}) if rows else ""


def _by_frequency(metrics: list[dict[str, Any]]) -> list[str]:
    """Reasons of all steps, the most frequent first and what was counted together last."""
    totals: dict[str, float] = {}
    for row in metrics:
        for key, value in row.items():
            if key.startswith("reason.") and _is_number(value):
                name = key.removeprefix("reason.")
                totals[name] = totals.get(name, 0.0) + value
    return sorted(totals, key=lambda name: (name == OTHERS, -totals[name], name))


def _series(metrics: list[dict[str, Any]], names: list[str]) -> Series:
    """Steps count from 1, as on the terminal; a reason that a step does not have was not given in it."""
    return [(row["step"] + 1, sum(row.get(f"reason.{name}") or 0.0 for name in names)) for row in metrics]


def _share(rows: list[dict[str, Any]], name: str) -> float:
    return sum(row.get(f"reason.{name}") or 0.0 for row in rows) / len(rows)


def _mean_reward(rows: list[dict[str, Any]], name: str) -> float | None:
    """Over all steps, weighted by the reason's share of each."""
    pairs = [(row.get(f"reason.{name}"), row.get(f"reward.{name}")) for row in rows]
    known = [(share, reward) for share, reward in pairs if share and reward is not None]
    total = sum(share for share, _ in known)
    return sum(share * reward for share, reward in known) / total if total else None


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
