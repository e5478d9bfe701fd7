"""What another lambda, another K or another group size would have given, counted exactly from the profiles."""

import math
from bisect import bisect_right
from collections import Counter
from functools import lru_cache
from itertools import product
from typing import Any

from pivotrl.pivots.analysis.signal_share import distinct, fit_prior, mean_posterior, unbiased
from pivotrl.trajectories.records import Profile

GROUPS = (2, 4, 8, 16, 32, 64)
"""Group sizes that a signal is predicted at."""
MOST_VALUES = 4
"""Distinct rewards of a turn up to which all subsets of its samples are enumerated."""


class Sweeps:
    """Counters over profiles; nothing is kept of a turn.

    The sweep over K, and the unbiased prediction, use the first `common` samples of every turn: all of them where K is
    fixed, and where profiling stopped early those that every turn got whatever they earned.
    """

    def __init__(self, max_mean: float, common: int) -> None:
        """`max_mean`: the selection's lambda; `common`: the smallest number of samples of a turn."""
        self._max_mean, self._common = max_mean, common
        self._lambdas = sorted({max_mean, *(step / 20 for step in range(1, 21))})
        self._turns: Counter[tuple[int, int]] = Counter()
        self._mixed: list[Counter[tuple[int, int]]] = [Counter() for _ in range(len(self._lambdas) + 1)]
        self._rewards = [0.0] * (len(self._lambdas) + 1)
        self._sizes = range(2, common + 1)
        self._mixed_at, self._pivots_at = [0.0] * len(self._sizes), [0.0] * len(self._sizes)
        self._unbiased = {group: 0.0 for group in GROUPS if group <= common}
        self._not_enumerated = 0

    def add(self, profile: Profile) -> None:
        key = len(profile.rewards), sum(reward == 1 for reward in profile.rewards)
        self._turns[key] += 1
        if profile.variance > 0:
            place = bisect_right(self._lambdas, profile.mean)  # the first lambda above the mean
            self._mixed[place][key] += 1
            self._rewards[place] += profile.mean
        first = distinct(profile.rewards[: self._common])
        counts = tuple(count for _, count in first)
        for group in self._unbiased:
            self._unbiased[group] += unbiased(counts, group)
        for place, size in enumerate(self._sizes):
            self._mixed_at[place] += unbiased(counts, size)
        if len(first) <= MOST_VALUES:
            for place, chance in enumerate(pivot_chances(first, self._max_mean)):
                self._pivots_at[place] += chance
        else:
            self._not_enumerated += 1

    def report(self) -> dict[str, Any]:
        """The sweeps as JSON values; of no turn, empty."""
        total = self._turns.total()
        if not total:
            return {}
        prior = fit_prior(self._turns)
        below: Counter[tuple[int, int]] = Counter()
        reward, lambdas, pivots = 0.0, [], Counter()
        for place, bound in enumerate(self._lambdas):
            below += self._mixed[place]
            reward += self._rewards[place]
            count = below.total()
            if bound == self._max_mean:
                pivots = below.copy()
            lambdas.append(
                {
                    "lambda": bound,
                    "pivots": count,
                    "share": count / total,
                    "mean_reward": reward / count if count else None,
                    "signal": {str(group): mean_posterior(below, group, prior) for group in GROUPS},
                }
            )
        signal = [
            {
                "group": group,
                "all_turns": self._unbiased[group] / total if group in self._unbiased else None,
                "all_turns_posterior": mean_posterior(self._turns, group, prior),
                "pivots_posterior": mean_posterior(pivots, group, prior),
            }
            for group in GROUPS
        ]
        samples = [
            {
                "samples": size,
                "mixed": mixed,
                "pivots": None if self._not_enumerated else found,
                "mixed_share": mixed / total,
                "pivots_share": None if self._not_enumerated else found / total,
            }
            for size, mixed, found in zip(self._sizes, self._mixed_at, self._pivots_at, strict=True)
        ]
        return {
            "turns": total,
            "lambda": self._max_mean,
            "common_samples": self._common,
            "samples_spent": sum(samples * n for (samples, _), n in self._turns.items()),
            "prior": {"a": prior[0], "b": prior[1]},
            "signal_by_group": signal,
            "by_lambda": lambdas,
            "by_samples": samples,
        }


@lru_cache(maxsize=1 << 14)
def pivot_chances(values: tuple[tuple[float, int], ...], max_mean: float) -> tuple[float, ...]:
    """For each k from 2 to the number of samples: the chance that k of them, drawn without replacement, are mixed with
    a mean below `max_mean`. Multivariate hypergeometric, by enumeration.

    Args:
        values: (reward, how often it was earned), at most `MOST_VALUES` of them.
    """
    total = sum(count for _, count in values)
    ways = [0] * (total + 1)
    for taken in product(*(range(count + 1) for _, count in values)):
        size = sum(taken)
        if size >= 2 and sum(one > 0 for one in taken) > 1:
            earned = sum(one * reward for one, (reward, _) in zip(taken, values, strict=True))
            if earned / size < max_mean:
                chosen = (math.comb(count, one) for one, (_, count) in zip(taken, values, strict=True))
                ways[size] += math.prod(chosen)
    return tuple(ways[size] / math.comb(total, size) for size in range(2, total + 1))
