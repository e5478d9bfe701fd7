"""How many groups of G samples will carry a signal, from K samples of each turn.

A group carries a signal where its rewards are not all equal. For rewards of 0 or 1 and a turn's chance of success p
that has probability 1 - p^G - (1 - p)^G, and the share of all groups is its mean over the turns.

Unbiased, for G <= K. Of the C(K, G) groups that can be drawn from a turn's K samples, C(s, G) have successes only and
C(K - s, G) failures only, if s of the K succeeded. The samples are exchangeable, so each of these groups is
distributed as a fresh group, and

    1 - C(s, G) / C(K, G) - C(K - s, G) / C(K, G)

has the expectation 1 - p^G - (1 - p)^G exactly, whatever p is. (The plug-in s / K for p has not: the function is
concave, so it comes out too low; at K = G = 2 and p = 1/2 it says .25 on average where .5 is true.) With any number of
distinct rewards the sum runs over them. No unbiased estimate exists for G > K, because the expectation of any function
of s is a polynomial in p of degree K at most.

It stops being unbiased where the turns were chosen, or the samples stopped, by the same samples: every turn selected
for its mixed results would predict a signal at G = K. A Bayesian's prediction does not mind either (the likelihood of
what was seen is the same), so pivots are predicted by

    E[p^G | s] = prod over i < G of (a + s + i) / (a + b + K + i)      under Beta(a + s, b + K - s)

and its mirror image, with the prior Beta(a, b) that makes the profiles of all turns most likely (Beta-Binomial
likelihood; empirical Bayes). A graded reward counts as a success where it is 1: groups that differ below that are not
counted, and the prediction is a lower bound then.
"""

import math
from collections.abc import Mapping, Sequence
from functools import lru_cache


@lru_cache(maxsize=1 << 16)
def unbiased(counts: tuple[int, ...], group: int) -> float:
    """Chance that `group` of the samples, drawn without replacement, do not all have the same reward.

    Args:
        counts: how many of the samples had each distinct reward.
        group: at most their sum.
    """
    assert 1 <= group <= sum(counts)
    return 1.0 - sum(math.comb(count, group) for count in counts) / math.comb(sum(counts), group)


def posterior(samples: int, passed: int, group: int, prior: tuple[float, float]) -> float:
    """Predicted chance of a signal in a fresh group of a turn of which `passed` of `samples` earned 1."""
    a, b = prior[0] + passed, prior[1] + samples - passed
    return 1.0 - _power(a, b, group) - _power(b, a, group)


def fit_prior(turns: Mapping[tuple[int, int], int]) -> tuple[float, float]:
    """The Beta prior (a, b) of the largest Beta-Binomial likelihood, by a pattern search in (logit of the mean, log of
    a + b).

    Args:
        turns: (samples, passed) -> how many turns had these.
    """
    place, step = [0.0, 0.0], 2.0
    best = _log_likelihood(turns, place)
    while step > 1e-3:
        moved = False
        for axis in (0, 1):
            for direction in (step, -step):
                trial = list(place)
                trial[axis] = min(max(trial[axis] + direction, -8.0), 8.0)
                found = _log_likelihood(turns, trial)
                if found > best:
                    place, best, moved = trial, found, True
        step = step if moved else step / 2
    return _shape(place)


def mean_posterior(turns: Mapping[tuple[int, int], int], group: int, prior: tuple[float, float]) -> float | None:
    """Mean of `posterior` over turns counted by (samples, passed); None where there are none."""
    total = sum(turns.values())
    return sum(n * posterior(*key, group, prior) for key, n in turns.items()) / total if total else None


def distinct(rewards: Sequence[float]) -> tuple[tuple[float, int], ...]:
    """Each distinct reward with how often it was earned, in rising order."""
    counts: dict[float, int] = {}
    for reward in rewards:
        counts[reward] = counts.get(reward, 0) + 1
    return tuple(sorted(counts.items()))


def _power(a: float, b: float, group: int) -> float:
    """E[p^group] under Beta(a, b)."""
    return math.prod((a + i) / (a + b + i) for i in range(group))


def _shape(place: Sequence[float]) -> tuple[float, float]:
    mean, total = 1 / (1 + math.exp(-place[0])), math.exp(place[1])
    return mean * total, (1 - mean) * total


def _log_likelihood(turns: Mapping[tuple[int, int], int], place: Sequence[float]) -> float:
    a, b = _shape(place)
    zero = math.lgamma(a) + math.lgamma(b) - math.lgamma(a + b)
    found = 0.0
    for (samples, passed), turns_so in turns.items():
        both = math.lgamma(a + passed) + math.lgamma(b + samples - passed) - math.lgamma(a + b + samples)
        found += turns_so * (both - zero)
    return found
