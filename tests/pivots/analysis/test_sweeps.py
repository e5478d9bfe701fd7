"""The sweeps against counting by hand: every lambda, and every subset of every turn's samples."""

import random
from itertools import combinations

import pytest

from pivotrl.pivots.analysis.sweeps import Sweeps
from pivotrl.pivots.select import is_pivot, make_profile


def profile(rewards):
    return make_profile("t", rewards, ["r"] * len(rewards), "policy", {})


def turns(values, samples, count, seed=0):
    rng = random.Random(seed)
    return [profile([rng.choice(values) for _ in range(rng.choice(samples))]) for _ in range(count)]


@pytest.mark.parametrize("values", [[0.0, 1.0], [0.0, 0.5, 1.0]])
def test_every_lambda_and_every_k_is_counted(values):
    profiles = [*turns(values, [6], 40), profile([0.0] * 6), profile([1.0] * 6)]
    sweeps = Sweeps(0.55, 6)
    for one in profiles:
        sweeps.add(one)
    report = sweeps.report()
    assert [row["lambda"] for row in report["by_lambda"]].count(0.55) == 1 and len(report["by_lambda"]) == 20
    for row in report["by_lambda"]:
        mine = [one for one in profiles if is_pivot(one, row["lambda"])]
        assert row["pivots"] == len(mine)
        assert row["mean_reward"] == (pytest.approx(sum(one.mean for one in mine) / len(mine)) if mine else None)
    for row in report["by_samples"]:
        subsets = [[make_profile("t", list(c), [], "", {}) for c in combinations(one.rewards, row["samples"])]
                   for one in profiles]  # fmt: skip
        mixed = sum(sum(one.variance > 0 for one in each) / len(each) for each in subsets)
        found = sum(sum(is_pivot(one, 0.55) for one in each) / len(each) for each in subsets)
        assert row["mixed"] == pytest.approx(mixed) and row["pivots"] == pytest.approx(found), row["samples"]
    assert [row["samples"] for row in report["by_samples"]] == [2, 3, 4, 5, 6]
    assert report["samples_spent"] == 42 * 6


def test_where_profiling_stopped_early_only_the_samples_of_all_turns_count():
    profiles = turns([0.0, 1.0], [4, 7, 16], 60)
    sweeps, first = Sweeps(0.6, 4), Sweeps(0.6, 4)
    for one in profiles:
        sweeps.add(one)
        first.add(profile(one.rewards[:4]))
    found, by_hand = sweeps.report(), first.report()
    assert found["by_samples"] == by_hand["by_samples"] and found["common_samples"] == 4
    assert found["signal_by_group"][0]["all_turns"] == by_hand["signal_by_group"][0]["all_turns"]
    assert found["signal_by_group"][2]["group"] == 8 and found["signal_by_group"][2]["all_turns"] is None
    pivots = next(row["pivots"] for row in found["by_lambda"] if row["lambda"] == 0.6)
    assert pivots == sum(is_pivot(one, 0.6) for one in profiles), "lambda's sweep uses every sample"


def test_rewards_of_many_values_have_no_exact_pivots_by_k():
    sweeps = Sweeps(0.6, 6)
    sweeps.add(profile([0.1, 0.2, 0.3, 0.4, 0.5, 0.6]))
    row = sweeps.report()["by_samples"][0]
    assert row["mixed"] == 1.0 and row["pivots"] is None
