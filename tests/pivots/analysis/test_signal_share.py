"""The predictions against exact expectations, numeric integrals and simulated turns."""

import math
import random
from collections import Counter
from itertools import combinations

import pytest

from pivotrl.pivots.analysis.signal_share import distinct, fit_prior, mean_posterior, posterior, unbiased


@pytest.mark.parametrize("p", [0.0, 0.03, 0.5, 0.8, 1.0])
@pytest.mark.parametrize("group", [2, 3, 6])
def test_the_estimate_has_the_right_expectation_at_every_p(p, group):
    samples = 6
    chances = [math.comb(samples, s) * p**s * (1 - p) ** (samples - s) for s in range(samples + 1)]
    expected = sum(
        chance * unbiased(tuple(count for count in (s, samples - s) if count), group)
        for s, chance in enumerate(chances)
    )
    assert expected == pytest.approx(1 - p**group - (1 - p) ** group, abs=1e-12)


def test_graded_rewards_are_counted_by_every_subset():
    rewards = [0.0, 0.5, 0.5, 1.0, 0.0, 0.5, 0.25]
    counts = tuple(count for _, count in distinct(rewards))
    assert distinct(rewards) == ((0.0, 2), (0.25, 1), (0.5, 3), (1.0, 1))
    for group in range(2, 8):
        subsets = list(combinations(rewards, group))
        differ = sum(len(set(subset)) > 1 for subset in subsets) / len(subsets)
        assert unbiased(counts, group) == pytest.approx(differ, abs=1e-12)


def test_the_posterior_is_the_integral():
    a, b, samples, passed, group = 0.4, 0.9, 8, 2, 5
    points = [(index + 0.5) / 200_000 for index in range(200_000)]
    weights = [p ** (a + passed - 1) * (1 - p) ** (b + samples - passed - 1) for p in points]
    signal = [weight * (1 - p**group - (1 - p) ** group) for p, weight in zip(points, weights, strict=True)]
    assert posterior(samples, passed, group, (a, b)) == pytest.approx(sum(signal) / sum(weights), abs=1e-5)


def test_pivots_are_predicted_without_the_luck_that_chose_them():
    rng = random.Random(1)
    turns, truth, naive, chosen = Counter(), 0.0, 0.0, Counter()
    for _ in range(30_000):
        p = rng.betavariate(0.3, 0.8)
        passed = sum(rng.random() < p for _ in range(8))
        turns[8, passed] += 1
        if 0 < passed < 8 * 0.6:
            chosen[8, passed] += 1
            truth += 1 - p**4 - (1 - p) ** 4
            naive += unbiased((passed, 8 - passed), 4)
    a, b = fit_prior(turns)
    assert a == pytest.approx(0.3, rel=0.1) and b == pytest.approx(0.8, rel=0.1)
    truth, naive = truth / chosen.total(), naive / chosen.total()
    assert mean_posterior(chosen, 4, (a, b)) == pytest.approx(truth, abs=0.01)
    assert naive - truth > 0.05, "what the selection's own samples would promise"
    assert mean_posterior(Counter(), 4, (a, b)) is None
