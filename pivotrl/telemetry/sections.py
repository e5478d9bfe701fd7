"""The report's sections: each takes what the run folder held and returns HTML, or nothing where its file is missing."""

import json
from typing import Any

from pivotrl.telemetry.charts import comparison_bar, stacked_bar
from pivotrl.telemetry.page import escape, number, percent, points, table
from pivotrl.telemetry.progress import format_seconds
from pivotrl.telemetry.reasons import selection_reasons
from pivotrl.telemetry.run_files import RunFiles

NUM_EXAMPLES = 12
NUM_TOOLS = 20
NUM_EVENTS = 30
SHOWN_ABOVE = {"evaluation", "selection"}
"""Parts of summary.json that have sections of their own."""
OUTCOMES = {
    "all_fail": ("always fails", "var(--red)"),
    "mixed": ("mixed", "var(--green)"),
    "all_partial": ("always partly right", "var(--orange)"),
    "all_pass": ("always right", "var(--grey)"),
}
"""Outcome of a profiled turn -> (its name on the page, its colour)."""


MEANINGS = {
    "mixed_share": "held-out turns where some of the policy's samples earn more than others: what can still be learnt",
    "turns_per_task": "turns that the policy took in a whole task, on average",
    "violations": "whole tasks in which the policy broke a rule, such as acting on an order that it had not looked at; "
    "lower is better",
}
"""Measure of evaluation.json -> what it says, under its name."""


def headline(run: RunFiles) -> str:
    """What the run changed: held-out turns, whole tasks, and everything else the model knew."""
    base, trained = run.evaluation.get("base"), run.evaluation.get("trained")
    if not isinstance(base, dict) or not isinstance(trained, dict):
        return ""
    measures = [
        ("Turn reward", "turn_reward", "share of single decisions right, on trajectories kept out of training"),
        ("Task success", "task_success", "share of whole tasks solved, in the live world"),
    ]
    cards, rows = [], []
    for name, key, meaning in measures:
        if _is_share(base.get(key)) and _is_share(trained.get(key)):
            cards.append(_card(name, meaning, base[key], trained[key]))
            rows.append(_comparison(f"<b>{name}</b>", base[key], trained[key]))
    families = _families(base, trained)
    if families:
        before, after = (sum(pair[side] for pair in families.values()) / len(families) for side in (0, 1))
        cards.append(_card("Other abilities", "mean over tasks that training never touched", before, after))
        rows.append(_comparison("<b>Other abilities, mean</b>", before, after))
        rows += [_comparison(f"&emsp;{escape(name)}", *pair) for name, pair in families.items()]
    head = ["", "base", "trained", "points", "trained (bar) against base (line)"]
    shown = {key for _, key, _ in measures}
    others = [key for key in base if key not in shown and _is_share(base[key]) and _is_share(trained.get(key))]
    rows += [[_measure(key), number(base[key]), number(trained[key]), "", ""] for key in others]
    counts = base.get("counts")
    note = ""
    if isinstance(counts, dict):
        note = (
            f'<p class="soft">Measured on {", ".join(f"{number(n)} {escape(name)}" for name, n in counts.items())}.</p>'
        )
    return (
        '<h2>Before and after</h2><div class="grid">'
        + "".join(cards)
        + f'</div><div class="card">{table(head, rows, {1, 2, 3})}</div>{note}'
    )


def health(run: RunFiles) -> str:
    """What the health gates said, the newest first; nothing where none spoke."""
    rows = []
    for event in reversed(run.health[-NUM_EVENTS:]):
        said, remedy = (escape(event.get(key, "")) for key in ("said", "remedy"))
        tone = "down" if event.get("action") == "stop" else ""
        gate = f'<span class="tag {tone}">{escape(event.get("gate", ""))}</span>'
        since = event.get("since")
        since = number(since + 1) if _is_share(since) else ""
        rows.append([number(event["step"] + 1), gate, f'{said}<div class="soft">{remedy}</div>', since])
    if not rows:
        return ""
    more = f'<p class="soft">and {len(run.health) - NUM_EVENTS} before</p>' if len(run.health) > NUM_EVENTS else ""
    return (
        "<h2>Health</h2><p>Where a figure left the bounds of section <code>health</code> of the configuration; one "
        "that stays out is told at its 1st, 2nd, 4th, 8th ... step. A red gate stopped the run.</p>"
        f'<div class="card">{table(["step", "gate", "", "since step"], rows, {0, 3})}{more}</div>'
    )


def selection(run: RunFiles) -> str:
    """How many turns could teach anything, by tool and by depth in the trajectory."""
    if not run.pivots.get("candidates"):
        return ""
    totals = run.pivots
    facts = [f"{number(totals['candidates'])} turns were tried"]
    if "samples" in totals:
        most = "" if totals.get("profiling", "fixed") == "fixed" else "up to "
        facts[0] += f" {most}{number(totals['samples'])} times each with the untrained policy"
    if totals.get("mixed") is not None:
        facts.append(
            f"{number(totals['mixed'])} of them ({percent(totals['mixed'] / totals['candidates'])}) had mixed results"
        )
    if totals.get("pivots") is not None:
        bound = f" (mean reward below {number(totals['max_mean'])})" if "max_mean" in totals else ""
        kept = {"mixed": " because their results were mixed", "all": ": all of them"}
        facts.append(f"{number(totals['pivots'])} were kept as pivots{kept.get(totals.get('keep'), bound)}")
    parts = [
        (name, totals[key], colour) for key, (name, colour) in OUTCOMES.items() if isinstance(totals.get(key), int)
    ]
    html = [
        "<h2>Which turns teach</h2>",
        f"<p>{'; '.join(facts)}. A turn that always fails or is always right gives the objective nothing to learn "
        "from.</p>",
        f'<div class="card">{stacked_bar(parts)}{_outcome_legend(parts)}</div>',
    ]
    for key, title in (("per_tool", "By expert action"), ("per_depth", "By turn of the trajectory")):
        if isinstance(totals.get(key), dict) and totals[key]:
            html.append(
                f'<h3 style="margin-top:18px">{title}</h3><div class="card">{_outcome_table(totals[key])}</div>'
            )
    if by_reason := selection_reasons(totals.get("reasons")):
        html.append(f'<h3 style="margin-top:18px">By reason of the verdict</h3><div class="card">{by_reason}</div>')
    return "".join(html)


def examples(run: RunFiles) -> str:
    """Turns to read: what the policy saw, what the expert did, and two of its own tries."""
    if not run.examples:
        return ""
    blocks = []
    for index, example in enumerate(run.examples[:NUM_EXAMPLES]):
        name = escape(example.get("id", f"turn {index + 1}"))
        inner = [f"<h3>{name}</h3>"]
        for key, title, tone in (
            ("prompt", "The end of what it saw", ""),
            ("expert", "The expert's action", ""),
            ("failing", "A sampled action that failed", "down"),
            ("succeeding", "A sampled action that succeeded", "up"),
        ):
            if example.get(key):
                reason = f" ({escape(example[key + '_reason'])})" if example.get(f"{key}_reason") else ""
                inner.append(f'<span class="tag {tone}">{title}{reason}</span><pre>{_text(example[key])}</pre>')
        blocks.append(f'<div class="card" style="margin:12px 0">{"".join(inner)}</div>')
    summary = f"<summary>{len(blocks)} turns</summary>"
    return f"<h2>Turns to read</h2><details open>{summary}{''.join(blocks)}</details>"


def totals(run: RunFiles) -> str:
    """The run's summary as a table, and the configuration."""
    html = []
    flat = [(name, value) for name, value in _flatten(run.summary, SHOWN_ABOVE) if isinstance(value, str | int | float)]
    if flat:
        rows = [[escape(name), number(value)] for name, value in flat]
        inner = f'<div class="card">{table(["", ""], rows, {1})}</div>'
        html.append(f"<details><summary>Totals (summary.json)</summary>{inner}</details>")
    if run.config:
        html.append(f"<details><summary>Configuration (config.yaml)</summary><pre>{escape(run.config)}</pre></details>")
    return f"<h2>The run</h2>{''.join(html)}" if html else ""


def notes(run: RunFiles) -> str:
    """What the report could not show, and why."""
    if not run.missing:
        return ""
    return (
        '<div class="note"><b>Not in this report.</b><br>'
        + "<br>".join(escape(line) for line in run.missing)
        + "</div>"
    )


def lead(run: RunFiles) -> str:
    """The run in one sentence."""
    if not run.metrics:
        return ""
    steps = run.metrics[-1]["step"] + 1
    words = f"{number(steps)} step{'s' if steps > 1 else ''} of training"
    edge = max(1, len(run.metrics) // 10)
    start, end = _mean(run.metrics[:edge], "reward"), _mean(run.metrics[-edge:], "reward")
    if start is not None and end is not None and len(run.metrics) > 1:
        first, last = (f"first {edge} steps", "last ones") if edge > 1 else ("first step", "last")
        words += f"; mean reward of sampled actions: from {start:.2f} over the {first} to {end:.2f} over the {last}"
    seconds = [row["seconds.total"] for row in run.metrics if row.get("seconds.total") is not None]
    if seconds:
        words += f", in {format_seconds(sum(seconds))}"
    return f'<p class="lead">{words}.</p>'


def _mean(rows: list[dict[str, Any]], key: str) -> float | None:
    values = [row[key] for row in rows if row.get(key) is not None]
    return sum(values) / len(values) if values else None


def _is_share(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _families(base: dict[str, Any], trained: dict[str, Any]) -> dict[str, tuple[float, float]]:
    before, after = base.get("families"), trained.get("families")
    if not isinstance(before, dict) or not isinstance(after, dict):
        return {}
    names = [name for name in before if name in after and name != "mean"]
    return {name: (before[name], after[name]) for name in names if _is_share(before[name]) and _is_share(after[name])}


def _measure(key: str) -> str:
    meaning = f'<div class="soft">{MEANINGS[key]}</div>' if key in MEANINGS else ""
    return f"{escape(key.replace('_', ' '))}{meaning}"


def _card(name: str, meaning: str, before: float, after: float) -> str:
    return (
        f'<div class="card"><h3>{name}</h3><div class="big"><span class="from">{100 * before:.1f} &rarr;</span> '
        f'{percent(after)}</div><div>{points(after - before)} points</div><div class="soft">{meaning}</div></div>'
    )


def _comparison(name: str, before: float, after: float) -> list[str]:
    return [name, percent(before), percent(after), points(after - before), comparison_bar(before, after)]


def _outcome_table(groups: dict[str, Any]) -> str:
    rows = []
    for name, counts in list(groups.items())[:NUM_TOOLS]:
        parts = [(title, counts.get(key) or 0, colour) for key, (title, colour) in OUTCOMES.items()]
        mean = counts.get("mean_reward")
        rows.append(
            [
                escape(name),
                number(counts.get("candidates", 0)),
                number(counts.get("pivots", 0)),
                "" if mean is None else number(mean),
                stacked_bar(parts),
            ]
        )
    note = f'<p class="soft">and {len(groups) - NUM_TOOLS} more</p>' if len(groups) > NUM_TOOLS else ""
    return table(["", "turns", "pivots", "mean reward", "outcome of the tries"], rows, {1, 2, 3}) + note


def _outcome_legend(parts: list[tuple[str, int, str]]) -> str:
    items = (f'<span><i style="background:{colour}"></i>{name}: {number(n)}</span>' for name, n, colour in parts)
    return f'<div class="legend">{"".join(items)}</div>'


def _text(value: object) -> str:
    return escape(value if isinstance(value, str) else json.dumps(value, indent=2, ensure_ascii=False))


def _flatten(tree: dict[str, Any], skip: set[str], prefix: str = "") -> list[tuple[str, Any]]:
    flat: list[tuple[str, Any]] = []
    for key, value in tree.items():
        if key not in skip:
            inside = isinstance(value, dict)
            flat += _flatten(value, set(), f"{prefix}{key}.") if inside else [(f"{prefix}{key}", value)]
    return flat
