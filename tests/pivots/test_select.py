import pytest

from pivotrl.pivots.select import Tally, is_pivot, make_profile, outcome
from pivotrl.trajectories.records import Turn


def profile(*rewards):
    return make_profile("t", list(rewards), ["r"] * len(rewards), "p", {})


def test_mean_and_population_variance():
    found = profile(1.0, 0.0, 0.0, 0.0)
    assert (found.mean, found.variance) == (0.25, 0.1875)


def test_equal_rewards_have_no_variance_even_where_the_mean_rounds():
    assert profile(*[0.1] * 10).variance == 0.0  # the mean of ten times 0.1 is not 0.1 in floating point


@pytest.mark.parametrize(
    "rewards, name, below_06, below_1",
    [
        ((1.0, 1.0), "all_pass", False, False),
        ((0.0, 0.0), "all_fail", False, False),
        ((0.5, 0.5), "all_partial", False, False),
        ((1.0, 0.0), "mixed", True, True),
        ((1.0, 1.0, 1.0, 0.0), "mixed", False, True),
        ((1.0, 1.0, 1.0, 0.0, 0.0), "mixed", False, True),  # a mean equal to lambda is not below it
    ],
)
def test_outcomes_and_the_rule(rewards, name, below_06, below_1):
    found = profile(*rewards)
    assert outcome(found) == name
    assert is_pivot(found, 0.6) is below_06 and is_pivot(found, 1.0) is below_1


def test_tally_counts_by_tool_and_depth():
    tally = Tally(0.6)
    call = {"type": "function_call", "name": "f", "arguments": "{}"}
    for depth, expert, rewards in [
        (0, call, (1.0, 0.0)),
        (1, call, (1.0, 1.0)),
        (0, {"type": "message", "content": "x"}, (0.0, 0.0)),
        (2, {"type": "function_call_batch", "calls": [call, call]}, (0.5, 0.5)),
    ]:
        tally.add(Turn("t", "t", depth, 3, [], [], expert, {}, "s", "train"), profile(*rewards))
    found = tally.report()
    assert (found["candidates"], found["mixed"], found["all_pass"], found["all_fail"], found["all_partial"]) == (
        4,
        1,
        1,
        1,
        1,
    )
    assert found["mean_reward"] == 0.5 and found["pivots"] == 1
    assert list(found["per_tool"]) == ["f", "(message)", "(several calls)"]
    assert found["per_tool"]["f"] == {
        "candidates": 2,
        "mixed": 1,
        "all_pass": 1,
        "all_fail": 0,
        "pivots": 1,
        "mean_reward": 0.75,
    }
    assert {depth: counts["candidates"] for depth, counts in found["per_depth"].items()} == {"0": 2, "1": 1, "2": 1}
