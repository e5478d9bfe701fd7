"""What every build of csrc/group_loss.cu must give, the definition's numbers: for the tests, the sanitizers' run and
the mutations of tools/mutate_kernels.py.

Legend: S samples, T response tokens, R samples with their groups.
"""

import itertools
from collections.abc import Sequence
from dataclasses import replace

import torch

from pivotrl.objective import fused, loss, metrics
from pivotrl.objective.config import ObjectiveConfig
from pivotrl.objective.loss import GroupRewards, ResponseTokens
from tests.objective.test_loss import CONFIGS, make_batch


def single(batch: ResponseTokens) -> ResponseTokens:
    """The batch in float32; masked and lost entries stay NaN."""
    names = ("logp_T", "old_logp_T", "reference_logp_T", "sampler_logp_T", "entropy_T", "advantages_S")
    values = {name: getattr(batch, name).detach().float() for name in names if getattr(batch, name) is not None}
    return replace(batch, **values)


def compare(config: ObjectiveConfig, batch: ResponseTokens, built: str, rewards: GroupRewards | None = None) -> None:
    """Loss, both gradients and every metric, to float32's rounding of O(1) terms."""
    rounded = single(batch)
    exact = single(batch)
    exact = replace(
        exact,
        **{
            name: getattr(exact, name).double()
            for name in ("logp_T", "old_logp_T", "reference_logp_T", "sampler_logp_T", "entropy_T", "advantages_S")
            if getattr(exact, name) is not None
        },
    )
    if rewards is not None:
        exact = replace(exact, advantages_S=rewards.advantages(config))
    expected = loss.policy_loss(config, exact, 60.0)
    leaves = [rounded.logp_T.requires_grad_()]
    if rounded.entropy_T is not None:
        leaves.append(rounded.entropy_T.requires_grad_())
    actual = fused.policy_loss(config, rounded, 60.0, rewards, library=built)
    torch.testing.assert_close(actual.loss.double(), expected.loss, rtol=2e-6, atol=2e-7)
    for name in ("g_T", "h_T"):
        found_T, wanted_T = getattr(actual, name).double(), getattr(expected, name)
        assert found_T.isfinite().all()
        error = ((found_T - wanted_T).abs() / wanted_T.abs().clamp(min=1e-3 / 60)).max().item()
        assert error < 2e-5, f"{name} of {config} is off by {error:.1e}"
    gradients = torch.autograd.grad(2 * actual.loss, leaves, allow_unused=True, materialize_grads=True)
    assert torch.equal(gradients[0], 2 * actual.g_T)
    if len(leaves) == 2:
        assert torch.equal(gradients[1], 2 * actual.h_T)
    found, wanted = (metrics.mean_metrics([result.metrics]) for result in (actual, expected))
    assert found.keys() == wanted.keys()
    for name, value in wanted.items():
        assert abs(found[name] - value) <= 1e-6 + 1e-5 * abs(value), f"{name} is {found[name]} for {value}"


def grouped(sizes: list[int], rewards: list[float], index: list[int]) -> GroupRewards:
    offsets = torch.tensor([0, *sizes]).cumsum(0).int()
    return GroupRewards(torch.tensor(rewards, dtype=torch.float64), offsets, torch.tensor(index, dtype=torch.int32))


def many_groups(samples: int) -> GroupRewards:
    """Groups of 1, 2, 3, 16 (one success; fifteen 0.1s; all equal), 130 and 1,024; not all of their samples."""
    generator = torch.Generator().manual_seed(0)
    sizes = [1, 2, 2, 3, 16, 16, 16, 130, 1024]
    rewards = [0.7, 0.0, 1.0, 0.1, 0.1, 0.3, 0.5, 0.3, *([0.0] * 15 + [1.0]), *([0.1] * 15 + [0.2]), *([0.1] * 16)]
    rewards += torch.randint(0, 2, (130,), generator=generator).tolist()
    rewards += torch.rand(1024, generator=generator, dtype=torch.float64).tolist()
    places = [
        *range(8),
        8,
        22,
        23,
        24,
        38,
        39,
        40,
        55,
        56,
        57,
        100,
        184,
        185,
        186,
        187,
        300,
        700,
        1000,
        1208,
        1209,
        3,
        23,
    ]
    assert len(places) == samples and places[27] == sum(sizes) - 1
    return grouped(sizes, [float(reward) for reward in rewards], places)


def long_batch() -> ResponseTokens:
    """Samples of 1 to 500 tokens, more than a block has threads, with some masked and some lost."""
    generator = torch.Generator().manual_seed(2)
    lengths_S = torch.tensor([1, 31, 32, 33, 127, 129, 300, 500])
    index_T = torch.arange(8).repeat_interleave(lengths_S)
    old_T, noise_T, gap_T, reference_T, entropy_T = torch.rand(
        5, len(index_T), generator=generator, dtype=torch.float64
    )
    mask_T = torch.rand(len(index_T), generator=generator) < 0.9
    return ResponseTokens(
        logp_T=-1.5 * old_T + 0.6 * (noise_T - 0.5),
        sample_index_T=index_T,
        advantages_S=torch.tensor([1.0, -1.0] * 4, dtype=torch.float64),
        old_logp_T=-1.5 * old_T,
        sampler_logp_T=(-1.5 * old_T + 0.4 * (gap_T - 0.5)).masked_fill(gap_T > 0.98, torch.nan),
        reference_logp_T=-2 * reference_T,
        entropy_T=entropy_T,
        mask_T=mask_T,
    )


def check_not_finite(built: str) -> None:
    """A NaN or an infinity in any tensor ends where the definition has it end: nothing hides what went wrong."""
    values = {"logp_T": -1.0, "old_logp_T": -1.1, "reference_logp_T": -1.2, "sampler_logp_T": -1.05, "entropy_T": 0.5}
    whole = {name: torch.full((3,), value) for name, value in values.items()}
    configs = (
        ObjectiveConfig(beta=0.1, entropy_bonus=0.01, importance="truncate"),
        ObjectiveConfig(ratio="sequence", dual_clip=3.0, beta=0.1, kl="k1"),
        ObjectiveConfig(surrogate="cispo", importance="mask"),
    )
    for config, name, advantage, value in itertools.product(
        configs, values, (1.0, -1.0, 0.0), (float("nan"), float("inf"), float("-inf"))
    ):
        broken = whole | {name: whole[name].index_fill(0, torch.tensor([1]), value)}
        batch = ResponseTokens(
            sample_index_T=torch.tensor([0, 0, 1]), advantages_S=torch.full((2,), advantage), **broken
        )
        actual = fused.policy_loss(config, batch, 3.0, library=built)
        expected = loss.policy_loss(config, batch, 3.0)
        for found, wanted in ((actual.loss, expected.loss), (actual.g_T, expected.g_T), (actual.h_T, expected.h_T)):
            torch.testing.assert_close(found, wanted, rtol=1e-5, atol=1e-6, equal_nan=True)


def check_build(built: str, configs: Sequence[ObjectiveConfig] = CONFIGS) -> None:
    """Everything that a build must get right. Raises AssertionError."""
    batch = make_batch()
    for config in configs:
        compare(config, batch, built)
    for mode in ("grpo", "leave_one_out", "mean_only"):
        config = ObjectiveConfig(advantage=mode, beta=0.1, entropy_bonus=0.01)
        compare(config, batch, built, many_groups(len(batch.advantages_S)))
    for ratio, importance in (("token", "mask"), ("sequence", "truncate")):
        config = ObjectiveConfig(ratio=ratio, importance=importance, importance_low=0.9, importance_high=1.1, beta=0.1)
        compare(config, long_batch(), built)
    bare = ResponseTokens(batch.logp_T.nan_to_num(-1.0), batch.sample_index_T, batch.advantages_S)
    compare(ObjectiveConfig(), bare, built)
    compare(ObjectiveConfig(ratio="sequence"), replace(bare, mask_T=batch.mask_T), built)
    compare(ObjectiveConfig(), replace(bare, old_logp_T=batch.old_logp_T.nan_to_num(-1.0)), built)
    check_not_finite(built)
