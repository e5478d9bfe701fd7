"""Intervals of means by resampling whole clusters, and of paired differences by the same resamples.

Turns of one trajectory succeed and fail together, and so do trials of one task, so it is these groups that are drawn
with replacement (live tasks and questions are clusters of one). Every policy was measured on the same items: in each
draw all of them get the same clusters, and the difference of two policies varies much less than either. Percentile
intervals (Efron 1979).

Legend: C = clusters, P = policies, D = draws.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

_LARGEST = 2_000_000
"""Counts of clusters held at a time."""


@dataclass(frozen=True, slots=True)
class Clusters:
    """Sums of one stratum's values by cluster."""

    sums_CP: np.ndarray
    """float64."""
    counts_C: np.ndarray
    """Values in each sum, at least 1."""


def means(strata: Sequence[Clusters]) -> np.ndarray:
    """Mean value of each stratum, averaged over the strata: float64 [P]."""
    return np.mean([one.sums_CP.sum(0) / one.counts_C.sum() for one in strata], axis=0)


def resample(strata: Sequence[Clusters], draws: int, seed: int) -> np.ndarray:
    """`means` of resampled clusters, every stratum by itself: float64 [D, P]."""
    total_DP = np.zeros((draws, strata[0].sums_CP.shape[1]))
    for place, one in enumerate(strata):
        clusters = len(one.counts_C)
        rng, block = np.random.default_rng([seed, place]), max(1, _LARGEST // clusters)
        for start in range(0, draws, block):
            size = min(block, draws - start)
            times_DC = rng.multinomial(clusters, np.full(clusters, 1 / clusters), size=size).astype(np.float64)
            values = (times_DC @ one.sums_CP) / (times_DC @ one.counts_C)[:, None]
            total_DP[start : start + size] += values
    return total_DP / len(strata)


def interval(values_D: np.ndarray, confidence: float) -> tuple[float, float]:
    """The middle `confidence` of the draws."""
    low, high = np.quantile(values_D, [(1 - confidence) / 2, (1 + confidence) / 2])
    return float(low), float(high)
