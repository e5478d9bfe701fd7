import statistics

import pytest
import torch

from pivotrl.objective import advantage
from tests.objective.mutants import mutant

MODES = ("grpo", "leave_one_out", "mean_only")

# (successes of 16, advantage of a success, of a failure): NeMo-RL's estimator and GRPO's, worked out without our code.
LEAVE_ONE_OUT = [
    (1, 1.000, -0.258),
    (2, 3.615, -0.379),
    (4, 1.932, -0.583),
    (8, 1.033, -1.033),
    (12, 0.583, -1.932),
    (15, 0.258, -1.000),
]
GRPO = [
    (1, 3.873, -0.258),
    (2, 2.646, -0.378),
    (4, 1.732, -0.577),
    (8, 1.0, -1.0),
    (12, 0.577, -1.732),
    (15, 0.258, -3.873),
]


def by_definition(rewards: list[float], mode: str, epsilon: float) -> list[float]:
    """One group, by Python's statistics module."""
    result = []
    for i, reward in enumerate(rewards):
        others = rewards[:i] + rewards[i + 1 :]
        if len(set(rewards)) == 1:
            result.append(0.0)
        elif mode == "mean_only":
            result.append(reward - statistics.fmean(rewards))
        elif mode == "grpo":
            result.append((reward - statistics.fmean(rewards)) / (statistics.pstdev(rewards) + epsilon))
        elif len(set(others)) == 1:
            result.append(reward - others[0])
        else:
            result.append((reward - statistics.fmean(others)) / (statistics.stdev(others) + epsilon))
    return result


def check(group_advantages) -> None:
    """Groups of any size in any order, rewards whose means round, against the definition."""
    groups = {
        "lone success": [0.7, *[0.1] * 15],
        "pair": [0.1, 0.3],
        "equal pair": [0.1, 0.1],
        "equal": [0.1] * 7,
        "one": [0.7],
        "graded": [0.0, 0.25, 0.5, 1.0, 1.0],
        "two values": [1.0, 1.0, 0.0],
    }
    rows = [(name, i) for name, rewards in groups.items() for i in range(len(rewards))]
    order = torch.randperm(len(rows), generator=torch.Generator().manual_seed(0)).tolist()
    rows = [rows[i] for i in order]
    rewards_N = torch.tensor([groups[name][i] for name, i in rows], dtype=torch.float64)
    for mode in MODES:
        expected = {name: by_definition(rewards, mode, 1e-6) for name, rewards in groups.items()}
        actual_N = group_advantages(rewards_N, [name for name, _ in rows], mode, 1e-6)
        expected_N = torch.tensor([expected[name][i] for name, i in rows], dtype=torch.float64)
        torch.testing.assert_close(
            actual_N, expected_N, rtol=1e-12, atol=1e-12, msg=lambda text, mode=mode: f"{mode}: {text}"
        )
        assert all(actual_N[i] == 0 for i, (name, _) in enumerate(rows) if name in ("equal pair", "equal", "one"))


def test_agrees_with_the_definition():
    check(advantage.group_advantages)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("correction=0", "correction=1"),
        ("correction=1", "correction=0"),
        ("others_equal_G = (others_GO == others_GO[:, :1])", "others_equal_G = (others_GO != others_GO)"),
        ("if (rewards_G != rewards_G[0]).any():", "if len(rewards_G) > 1:"),
        ("rewards_G - others_GO.mean(dim=1)", "rewards_G - rewards_G.mean()"),
    ],
)
def test_the_definition_catches(old, new):
    """Bessel in GRPO, none in leave-one-out, lone success over epsilon, equal groups not zero, own reward in b."""
    wrong = mutant(advantage, old, new)
    with pytest.raises(AssertionError):
        check(wrong.group_advantages)


@pytest.mark.parametrize(("mode", "table"), [("leave_one_out", LEAVE_ONE_OUT), ("grpo", GRPO)])
def test_table_of_sixteen(mode, table):
    for successes, of_success, of_failure in table:
        rewards_N = torch.tensor([1.0] * successes + [0.0] * (16 - successes))
        actual_N = advantage.group_advantages(rewards_N, [0] * 16, mode, 1e-6)
        assert actual_N[0].item() == pytest.approx(of_success, abs=5e-4)
        assert actual_N[-1].item() == pytest.approx(of_failure, abs=5e-4)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_equal_rewards_and_lone_samples_give_zero_bits(mode, dtype):
    for size in (1, 2, 3, 6, 7, 16, 1024):
        for reward in (0.1, 0.3, 1 / 3, -0.7, 1e-30, 1e30):
            actual_N = advantage.group_advantages(torch.full((size,), reward, dtype=dtype), [5] * size, mode, 1e-6)
            assert actual_N.dtype == dtype
            assert actual_N.view(torch.uint8).sum() == 0


@pytest.mark.parametrize("mode", MODES)
def test_float32_rewards_are_computed_in_float64(mode):
    rewards_N = 1000 + torch.rand(50, generator=torch.Generator().manual_seed(0))
    exact_N = advantage.group_advantages(rewards_N.double(), [i % 7 for i in range(50)], mode, 1e-6)
    assert torch.equal(advantage.group_advantages(rewards_N, [i % 7 for i in range(50)], mode, 1e-6), exact_N.float())


def test_groups_are_by_id_alone():
    """Two pivots with one prompt, hence one set of possible rewards, stay two groups; ids may be a tensor."""
    rewards_N = torch.tensor([1.0, 0.0, 1.0, 1.0], dtype=torch.float64)
    apart_N = advantage.group_advantages(rewards_N, torch.tensor([3, 3, 9, 9]), "mean_only", 1e-6)
    assert apart_N.tolist() == [0.5, -0.5, 0.0, 0.0]
    together_N = advantage.group_advantages(rewards_N, ["a", "a", "a", "a"], "mean_only", 1e-6)
    assert together_N.tolist() == [0.25, -0.75, 0.25, 0.25]


def test_a_reward_that_is_not_finite_is_named():
    with pytest.raises(ValueError, match=r"sample 1 \(group 'b'\) has nan"):
        advantage.group_advantages(torch.tensor([1.0, float("nan")]), ["a", "b"], "grpo", 1e-6)
    with pytest.raises(ValueError, match="3 ids"):
        advantage.group_advantages(torch.tensor([1.0, 0.0]), [1, 2, 3], "grpo", 1e-6)
