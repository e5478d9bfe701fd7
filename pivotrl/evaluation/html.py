"""The comparison as one HTML file, in the style of the run's report."""

from typing import Any

from pivotrl.evaluation.comparison import UNITS
from pivotrl.telemetry.charts import interval_bar
from pivotrl.telemetry.page import escape, number, page, percent, points, table

_CARDS = ("turn_reward_pivots", "turn_reward", "task_success", "families")
_SAYS = {
    "turn_reward_pivots": "held-out turns that the base sometimes gets right and sometimes wrong, with a mean reward "
    "below lambda: chosen by samples of their own",
    "turn_reward": "single decisions at the expert's own histories, on trajectories that training never saw",
    "mixed": "turns of which some samples earn more than others: what can still be learnt",
    "task_success": "whole tasks played in the live world",
    "families": "questions that training never touched, answered to the letter; every family weighs the same",
}
"""Key of a measure -> what it says."""


def render(comparison: dict[str, Any], facts: dict[str, Any]) -> str:
    """The page.

    Args:
        comparison: of `compare`.
        facts: name -> text or number, about how it was measured.
    """
    names = comparison["policies"]
    title = f"Evaluation: {', '.join(names)}"
    level = f"{comparison['confidence']:.0%}"
    rows = [[escape(key), number(value)] for key, value in facts.items()]
    body = [
        f"<h1>{escape(title)}</h1>",
        f'<p class="lead">{number(len(names))} {"policies" if len(names) > 1 else "policy"} on the same turns, tasks '
        f"and questions. Brackets are {level} intervals: whole trajectories, tasks and questions are drawn anew "
        f"{number(comparison['draws'])} times. Differences are paired: both policies are looked at on the same draws, "
        "so a difference can be sure where the two intervals overlap. Where all of n items came out alike the interval "
        "has no width; about 3 / n of all such items may still differ.</p>",
        _cards(comparison),
        *(_measure(measure, names) for measure in comparison["measures"] if not measure["key"].startswith("family ")),
        _families(comparison),
        f'<h2>How it was measured</h2><div class="card">{table(["", ""], rows)}</div>',
    ]
    return page(title, "\n".join(body))


def _cards(comparison: dict[str, Any]) -> str:
    """The last policy against the first, in big figures."""
    names, shown, cards = comparison["policies"], set(), []
    for measure in comparison["measures"]:
        if measure["key"] in _CARDS and measure["key"] not in shown:
            shown.add(measure["key"])
            first, last = measure["values"][0], measure["values"][-1]
            before = f'<span class="from">{100 * first["mean"]:.1f} &rarr;</span> ' if len(names) > 1 else ""
            change = f"<div>{_difference(last, True)} points</div>" if len(names) > 1 else ""
            cards.append(
                f'<div class="card"><h3>{_title(measure)}</h3><div class="big">{before}{percent(last["mean"])}</div>'
                f'{change}<div class="soft">{_SAYS[measure["key"]]}</div></div>'
            )
    said = f"<h2>{escape(names[0])} to {escape(names[-1])}</h2>" if len(names) > 1 else ""
    return f'{said}<div class="grid">{"".join(cards)}</div>'


def _measure(measure: dict[str, Any], names: list[str]) -> str:
    """One measure of all policies."""
    unit, cluster = UNITS[measure["part"]]
    within = f" of {number(measure['clusters'])} {cluster}" if unit != cluster else ""
    says = _SAYS.get(measure["key"], "")
    note = f"{says[:1].upper()}{says[1:]}. " if says else ""
    note += f"On {number(measure['items'])} {unit}{within}."
    first = measure["values"][0]["mean"]
    rows = [
        [
            f"<b>{escape(name)}</b>",
            _mean(value, measure["share"]),
            _range(value, measure["share"]),
            _difference(value, measure["share"], measure["good"]) if place else "",
            _bar(value, first if place else None) if measure["share"] else "",
        ]
        for place, (name, value) in enumerate(zip(names, measure["values"], strict=True))
    ]
    head = ["", "mean", "interval", f"{'points' if measure['share'] else 'difference'} against {escape(names[0])}", ""]
    return (
        f'<h3 style="margin-top:22px">{_title(measure)}</h3><p class="soft">{note}</p>'
        f'<div class="card">{table(head, rows, {1, 2, 3})}</div>'
    )


def _families(comparison: dict[str, Any]) -> str:
    """Each family of questions in one table."""
    families = [measure for measure in comparison["measures"] if measure["key"].startswith("family ")]
    if not families:
        return ""
    names = comparison["policies"]
    rows = []
    for measure in families:
        cells = [f"{escape(measure['title'].strip())} <span class='soft'>{measure['decoding']}</span>"]
        for place, value in enumerate(measure["values"]):
            change = f"<div>{_difference(value, True)}</div>" if place else ""
            cells.append(f"{_mean(value, True)} <span class='soft'>{_range(value, True)}</span>{change}")
        rows.append(cells)
    columns = set(range(1, len(names) + 1))
    return (
        '<h3 style="margin-top:22px">Each family</h3><p class="soft">Below: points against '
        f'{escape(names[0])}.</p><div class="card">{table(["", *map(escape, names)], rows, columns)}</div>'
    )


def _title(measure: dict[str, Any]) -> str:
    words = escape(measure["title"])
    return f"{words[:1].upper()}{words[1:]}, {measure['decoding']}"


def _mean(value: dict[str, Any], share: bool) -> str:
    return percent(value["mean"]) if share else f"{value['mean']:.2f}"


def _range(value: dict[str, Any], share: bool) -> str:
    if value["low"] is None:
        return ""
    factor, places = (100, 1) if share else (1, 2)
    return f"[{factor * value['low']:.{places}f} {factor * value['high']:.{places}f}]"


def _difference(value: dict[str, Any], share: bool, good: bool = True) -> str:
    """In points, green or red where more is better and the whole interval is on one side of zero."""
    found = value["difference"]
    if not share:
        return f"{found['mean']:+.2f} {_range(found, False)}"
    sure = good and found["low"] is not None and (found["low"] > 0 or found["high"] < 0)
    mean = points(found["mean"]) if sure else f"{100 * found['mean']:+.1f}"
    return f"{mean} <span class='soft'>{_range(found, True)}</span>"


def _bar(value: dict[str, Any], against: float | None) -> str:
    low, high = (value["mean"] if value[side] is None else value[side] for side in ("low", "high"))
    return interval_bar(value["mean"], low, high, against)
