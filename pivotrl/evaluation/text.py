"""The comparison as a table for a terminal."""

from typing import Any

from pivotrl.evaluation.comparison import UNITS

_FIRST, _CELL = 46, 22


def describe(table: dict[str, Any]) -> str:
    """One row a measure, one column a policy; under each mean, the interval or the difference from the first policy."""
    names = table["policies"]
    lines = [" " * _FIRST + "".join(f"{name[: _CELL - 2]:>{_CELL}}" for name in names)]
    for measure in table["measures"]:
        title = f"{measure['title']} ({measure['decoding']})"
        means = (_mean(value, measure["share"]) for value in measure["values"])
        lines.append(f"{title[: _FIRST - 1]:{_FIRST}}" + "".join(f"{text:>{_CELL}}" for text in means))
        if len(names) > 1:
            differences = [_difference(value.get("difference"), measure["share"]) for value in measure["values"]]
            lines.append(" " * _FIRST + "".join(f"{text:>{_CELL}}" for text in differences))
    counts = {}
    for measure in table["measures"]:
        unit, cluster = UNITS[measure["part"]]
        within = f" of {measure['clusters']:,} {cluster}" if unit != cluster else ""
        counts.setdefault(f"{measure['items']:,} {unit}{within}", None)
    against = f"; below: points against {names[0]}" if len(names) > 1 else ""
    lines.append(f"(mean [{table['confidence']:.0%} interval]{against}; on {', '.join(counts)})")
    return "\n".join(lines)


def _mean(value: dict[str, Any], share: bool) -> str:
    places = 3 if share else 2
    if value["low"] is None:
        return f"{value['mean']:.{places}f}"
    return f"{value['mean']:.{places}f} [{value['low']:.{places}f} {value['high']:.{places}f}]"


def _difference(value: dict[str, Any] | None, share: bool) -> str:
    if value is None:
        return ""
    factor, places = (100, 1) if share else (1, 2)
    mean = f"{factor * value['mean']:+.{places}f}"
    if value["low"] is None:
        return mean
    return f"{mean} [{factor * value['low']:+.{places}f} {factor * value['high']:+.{places}f}]"
