"""Intervals against known ones, curves against values read off by hand."""

import math

import pytest

from pivotrl.study.statistics import at, bootstrap, first_reach, over_seeds


def test_students_interval_by_hand():
    found = over_seeds([1.0, 2.0, 3.0])
    assert found.mean == 2.0
    assert (found.low, found.high) == pytest.approx((2 - 4.303 / math.sqrt(3), 2 + 4.303 / math.sqrt(3)))
    assert over_seeds([5.0]).low == -math.inf
    assert over_seeds([4.0, 4.0]).low == over_seeds([4.0, 4.0]).high == 4.0


def test_bootstrap_draws_a_task_for_all_seeds_at_once():
    low, high = bootstrap(["1" * 30 + "0" * 70] * 4)
    half = 1.96 * math.sqrt(0.3 * 0.7 / 100)  # four seeds that fare alike at each task tell no more than one
    assert (low, high) == pytest.approx((0.3 - half, 0.3 + half), abs=0.012)
    assert bootstrap(["10" * 20, "01" * 20]) == (0.5, 0.5)
    assert bootstrap(["1" * 50]) == (1.0, 1.0)


def test_first_reach():
    curve = [(0, 10.0), (10, 20.0), (20, 15.0), (30, 40.0)]
    assert first_reach(curve, 5.0) == 0
    assert first_reach(curve, 15.0) == 5
    assert first_reach(curve, 30.0) == pytest.approx(26)
    assert first_reach(curve, 41.0) is None


def test_at():
    curve = [(0, 10.0), (10, 20.0), (20, 0.0)]
    assert [at(curve, x) for x in (-5, 0, 5, 15, 20, 99)] == [10, 10, 15, 10, 0, 0]
