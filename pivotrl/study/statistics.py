"""Means with their uncertainty, and where a curve reaches a value."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

# Two-sided 95 % quantiles of Student's t for 1 to 9 degrees of freedom.
_T95 = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262)


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean over seeds, with the 95 % interval of Student's t; of one seed, the interval is infinite."""

    mean: float
    low: float
    high: float
    values: tuple[float, ...]


def over_seeds(values: Sequence[float]) -> Estimate:
    """The mean of 1 to 10 values and its interval."""
    count = len(values)
    assert 1 <= count <= 10, count
    mean = sum(values) / count
    if count == 1:
        return Estimate(mean, -math.inf, math.inf, tuple(values))
    spread = math.sqrt(sum((value - mean) ** 2 for value in values) / (count - 1))
    half = _T95[count - 2] * spread / math.sqrt(count)
    return Estimate(mean, mean - half, mean + half, tuple(values))


def over_seeds_of_ratios(values: Sequence[float]) -> Estimate:
    """The geometric mean of 1 to 10 positive values and its interval: that of their logarithms."""
    found = over_seeds([math.log(value) for value in values])
    return Estimate(math.exp(found.mean), math.exp(found.low), math.exp(found.high), tuple(values))


def bootstrap(groups: Sequence[str], draws: int = 2000, seed: int = 0) -> tuple[float, float]:
    """95 % interval of the mean over groups (seeds) of the share of ones. Each group is a string of 0 and 1, one
    character a task, the same tasks in the same order: a task is drawn, with replacement, for all groups at once. What
    the tasks' choice is worth, the seeds as they are."""
    rng = np.random.default_rng(seed)
    means = np.mean([[int(bit) for bit in bits] for bits in groups], axis=0)
    low, high = np.quantile(rng.choice(means, (draws, len(means))).mean(axis=1), (0.025, 0.975))
    return float(low), float(high)


def first_reach(curve: Sequence[tuple[float, float]], target: float) -> float | None:
    """The x at which a curve of (x, y), x rising, first reaches `target`, linear between points; None if it never
    does."""
    before: tuple[float, float] | None = None
    for x, y in curve:
        if y >= target:
            if before is None:
                return x
            return before[0] + (x - before[0]) * (target - before[1]) / (y - before[1])
        before = (x, y)
    return None


def at(curve: Sequence[tuple[float, float]], x: float) -> float:
    """The y of a curve at x, linear between its points, constant beyond them."""
    if x <= curve[0][0]:
        return curve[0][1]
    for (x0, y0), (x1, y1) in pairwise(curve):
        if x <= x1:
            return y0 + (y1 - y0) * (x - x0) / (x1 - x0)
    return curve[-1][1]
