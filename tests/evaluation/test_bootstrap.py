"""Intervals against exact distributions, item-wise resampling, and repeated experiments."""

from itertools import product

import numpy as np
import pytest

from pivotrl.evaluation import bootstrap
from pivotrl.evaluation.bootstrap import Clusters, interval, means, resample


def clusters(*rows, counts=None):
    sums = np.array(rows, dtype=float)
    return Clusters(sums, np.ones(len(sums)) if counts is None else np.array(counts, dtype=float))


def test_draws_have_the_exact_distribution_of_three_clusters():
    one = clusters([0.0], [1.0], [5.0], counts=[1, 2, 3])
    exact = [
        sum((0.0, 1.0, 5.0)[i] for i in draw) / sum((1, 2, 3)[i] for i in draw) for draw in product(range(3), repeat=3)
    ]
    found = resample([one], 60_000, 0)[:, 0]
    assert means([one])[0] == pytest.approx(1.0)
    for value in set(exact):
        assert np.isclose(found, value).mean() == pytest.approx(np.isclose(exact, value).mean(), abs=0.01)


def test_turns_of_a_trajectory_count_as_one_draw():
    rng = np.random.default_rng(0)
    successes = rng.random(40) < 0.5  # every turn of a trajectory fares alike
    by_trajectory = Clusters(10.0 * successes[:, None], np.full(40, 10.0))
    by_turn = clusters(*[[float(one)] for one in np.repeat(successes, 10)])
    wide, narrow = (np.ptp(interval(resample([one], 4000, 1)[:, 0], 0.95)) for one in (by_trajectory, by_turn))
    assert wide / narrow == pytest.approx(np.sqrt(10), rel=0.15)


def test_differences_are_paired():
    rng = np.random.default_rng(2)
    base = rng.random(200)
    both = Clusters(np.stack([base, base + 0.05 + 0.01 * rng.standard_normal(200)], 1), np.ones(200))
    draws = resample([both], 4000, 3)
    low, high = interval(draws[:, 1] - draws[:, 0], 0.95)
    assert 0.045 < low < 0.05 < high < 0.055
    assert interval(draws[:, 1], 0.95)[0] < interval(draws[:, 0], 0.95)[1], "the intervals alone do not tell them apart"


def test_strata_weigh_the_same_and_are_drawn_apart():
    small, large = clusters([0.0], [1.0]), clusters(*[[1.0]] * 50)
    assert means([small, large])[0] == 0.75
    assert set(np.unique(resample([small, large], 500, 0))) == {0.5, 0.75, 1.0}


def test_seeds_decide_and_blocks_do_not(monkeypatch):
    one = clusters(*np.random.default_rng(4).random((30, 3)))
    first = resample([one, one], 500, 7)
    assert (first == resample([one, one], 500, 7)).all() and (first != resample([one, one], 500, 8)).any()
    monkeypatch.setattr(bootstrap, "_LARGEST", 1000)
    assert np.allclose(first, resample([one, one], 500, 7))


def test_intervals_hold_the_truth_as_often_as_they_say():
    rng = np.random.default_rng(5)
    held = 0
    for trial in range(300):
        chances = rng.beta(2, 2, 60)  # of a trajectory; its turns share it
        sums = rng.binomial(5, chances).astype(float)
        low, high = interval(resample([Clusters(sums[:, None], np.full(60, 5.0))], 400, trial)[:, 0], 0.9)
        held += low <= 0.5 <= high
    assert 0.83 <= held / 300 <= 0.96
