"""Policies side by side: every measure's mean and interval, and each policy's paired difference from the first."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pivotrl.evaluation.bootstrap import Clusters, interval, means, resample

Result = dict[str, Any]
"""What `evaluate` returns."""
Value = Callable[[dict[str, Any]], float]
UNITS = {
    "turns": ("turns", "independent trajectories"),
    "tasks": ("tasks", "tasks"),
    "families": ("questions", "questions"),
}
"""Part -> what its items and its clusters are called."""


@dataclass(frozen=True, slots=True)
class Measure:
    """One row of the table."""

    key: str
    title: str
    part: str
    decoding: str
    value: Value
    """Of one item."""
    share: bool = True
    """The value is a share in [0, 1]: differences are told in points."""
    good: bool = True
    """More of it is better; else it is neither good nor bad."""
    keep: Callable[[dict[str, Any]], bool] = lambda item: True
    """Which items count."""
    strata: str = ""
    """Key of an item whose values are averaged with equal weight."""


def compare(results: Sequence[Result], draws: int = 5000, confidence: float = 0.95, seed: int = 0) -> dict[str, Any]:
    """The table of several policies; the first is what the others are compared against.

    Args:
        results: of `evaluate`, with the same settings.
        draws: bootstrap draws.
        confidence: of the intervals, such as 0.95.

    Returns:
        `policies`, `confidence`, `draws`, and `measures`: each with `key`, `title`, `part`, `decoding`, `share`,
        `good`, `items`, `clusters` and `values`, one a policy: `mean`, `low`, `high` and, but for the first,
        `difference` with `mean`, `low` and `high`. `low` and `high` are None where one cluster was measured.

    Raises:
        ValueError: there is no result, or two were measured on other items.
    """
    if not results:
        raise ValueError("no policy to compare; evaluate one first")
    rows = []
    for measure in measures_of(results[0]):
        strata, items = _strata(results, measure)
        if not items:
            continue
        mean_P, draws_DP = means(strata), resample(strata, draws, seed)
        several = all(len(one.counts_C) > 1 for one in strata)

        def described(mean: float, values_D: np.ndarray, several: bool = several) -> dict[str, Any]:
            low, high = interval(values_D, confidence) if several else (None, None)
            return {"mean": float(mean), "low": low, "high": high}

        values = []
        for place in range(len(results)):
            value = described(mean_P[place], draws_DP[:, place])
            if place:
                value["difference"] = described(mean_P[place] - mean_P[0], draws_DP[:, place] - draws_DP[:, 0])
            values.append(value)
        rows.append(
            {
                "key": measure.key,
                "title": measure.title,
                "part": measure.part,
                "decoding": measure.decoding,
                "share": measure.share,
                "good": measure.good,
                "items": items,
                "clusters": sum(len(one.counts_C) for one in strata),
                "values": values,
            }
        )
    return {
        "policies": [result["name"] for result in results],
        "confidence": confidence,
        "draws": draws,
        "measures": rows,
    }


def measures_of(result: Result) -> Iterator[Measure]:
    """The measures that a result has, in the order of the table."""
    pivots = None if result["pivots"] is None else frozenset(result["pivots"])
    for decoding, items in result.get("turns", {}).items():
        if pivots is not None:
            yield Measure(
                "turn_reward_pivots",
                "turn reward, held-out pivots",
                "turns",
                decoding,
                _reward,
                keep=lambda item: item["id"] in pivots,
            )
        yield Measure("turn_reward", "turn reward, all held-out turns", "turns", decoding, _reward)
        if items and len(items[0]["rewards"]) > 1:
            yield Measure("mixed", "held-out turns with mixed samples", "turns", decoding, _mixed, good=False)
    for decoding, items in result.get("tasks", {}).items():
        yield Measure("task_success", "task success, live", "tasks", decoding, lambda item: item["reward"])
        yield Measure(
            "task_turns", "turns per task", "tasks", decoding, lambda item: item["turns"], share=False, good=False
        )
        for fact in items[0]["facts"] if items else ():
            value = _fact(fact)
            share = all(0 <= value(item) <= 1 for item in items)
            yield Measure(fact, fact.replace("_", " "), "tasks", decoding, value, share, good=False)
    for decoding, items in result.get("families", {}).items():
        yield Measure("families", "other families, mean", "families", decoding, _right, strata="family")
        for family in dict.fromkeys(item["family"] for item in items):
            yield Measure(
                f"family {family}",
                f"  {family}",
                "families",
                decoding,
                _right,
                keep=lambda item, family=family: item["family"] == family,
            )


def mean_of(result: Result, key: str, decoding: str) -> float:
    """One measure of one policy, without an interval."""
    measure = next(one for one in measures_of(result) if (one.key, one.decoding) == (key, decoding))
    strata, _ = _strata([result], measure)
    return float(means(strata)[0])


def _reward(item: dict[str, Any]) -> float:
    return sum(item["rewards"]) / len(item["rewards"])


def _mixed(item: dict[str, Any]) -> float:
    return float(min(item["rewards"]) < max(item["rewards"]))


def _fact(name: str) -> Value:
    return lambda item: item["facts"][name]


def _right(item: dict[str, Any]) -> float:
    return sum(item["right"]) / len(item["right"])


def _strata(results: Sequence[Result], measure: Measure) -> tuple[list[Clusters], int]:
    """The measure's values summed by cluster, for all policies, and the number of items."""
    tables = [
        [item for item in result.get(measure.part, {}).get(measure.decoding, ()) if measure.keep(item)]
        for result in results
    ]
    first = [item["id"] for item in tables[0]]
    for result, table in zip(results, tables, strict=True):
        if [item["id"] for item in table] != first:
            raise ValueError(
                f"{result['name']!r} and {results[0]['name']!r} were measured on other {UNITS[measure.part][0]} "
                f"({measure.title.strip()}, {measure.decoding}): evaluate both with the same configuration"
            )
    sums: dict[str, dict[str, tuple[np.ndarray, int]]] = {}
    for items in zip(*tables, strict=True):
        stratum = sums.setdefault(items[0][measure.strata] if measure.strata else "", {})
        cluster = items[0].get("group", items[0].get("trajectory", items[0]["id"]))
        values, count = stratum.get(cluster, (np.zeros(len(results)), 0))
        stratum[cluster] = values + [measure.value(item) for item in items], count + 1
    strata = [
        Clusters(np.array([values for values, _ in one.values()]), np.array([float(n) for _, n in one.values()]))
        for one in sums.values()
    ]
    return strata, len(first)
