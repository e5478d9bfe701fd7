from types import SimpleNamespace

import pytest

from pivotrl import collect
from pivotrl.pivots.reasons import MOST_REASONS, OTHERS, ReasonTally


def test_shares_and_mean_rewards_the_most_frequent_first():
    tally = ReasonTally()
    tally.add([1.0, 0.0, 0.0, 0.5], ["right", "wrong", "wrong", "partly"])
    tally.add([0.0, 0.0, 1.0, 1.0], ["wrong", "wrong", "right", "partly"])
    found = tally.report()
    assert list(found) == ["wrong", "partly", "right"]
    assert found == {"wrong": (4, 0.5, 0.0), "partly": (2, 0.25, 0.75), "right": (2, 0.25, 1.0)}
    with pytest.raises(ValueError):
        tally.add([1.0], [])


@pytest.mark.parametrize("own", [[], [OTHERS]])
def test_a_verifier_that_makes_up_reasons_does_not_fill_the_file(own):
    tally = ReasonTally()
    for index in range(100):
        tally.add([1.0, 0.0], [f"made up {index}", "usual"])
    tally.add([1.0] * len(own), own)
    found = tally.report()
    assert len(found) == MOST_REASONS + 1 and next(iter(found)) == "usual" and list(found)[-1] == OTHERS
    assert found[OTHERS].samples == 100 - (MOST_REASONS - 1) + len(own) and found[OTHERS].mean_reward == 1.0
    assert sum(reason.share for reason in found.values()) == pytest.approx(1)


def test_a_steps_metrics_have_its_reasons():
    def group(rewards, reasons):
        samples = [SimpleNamespace(token_ids=[1, 2], finish="stop")] * len(rewards)
        return collect.Group(SimpleNamespace(prompt_ids=[1]), samples, rewards, reasons)

    groups = [group([1.0, 0.0], ["call_matches", "other_tool"]), group([0.0, 0.5], ["other_tool", "number_of_calls"])]
    found = collect.describe(groups, {"rollout": 1.0, "total": 2.0})
    assert {key: value for key, value in found.items() if key.startswith(("reason", "reward"))} == {
        "reward": 0.375,
        "reason.other_tool": 0.5,
        "reward.other_tool": 0.0,
        "reason.call_matches": 0.25,
        "reward.call_matches": 1.0,
        "reason.number_of_calls": 0.25,
        "reward.number_of_calls": 0.5,
    }
