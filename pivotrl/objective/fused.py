"""The whole objective in one launch: csrc/group_loss.cu behind the interface of `objective.loss`.

Legend: S samples of a micro-batch, T its response tokens, R samples of the whole batch with their groups.
"""

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from pivotrl.objective.config import ObjectiveConfig
from pivotrl.objective.kernels.group_loss import SETTINGS, group_loss
from pivotrl.objective.kernels.library import TOTALS, is_installed
from pivotrl.objective.loss import GroupRewards, PolicyLoss, ResponseTokens, check_complete
from pivotrl.objective.metrics import MetricSums

MOST_IN_GROUP = 1024
"""Samples of one group that the kernel is tested for."""
_MODES = {"grpo": 1, "leave_one_out": 2, "mean_only": 3}
_KLS = {"k1": 1, "k2": 2, "k3": 3}
_IMPORTANCES = {"none": 0, "truncate": 1, "mask": 2}


def runs_on(logp_T: Tensor) -> bool:
    """Whether the kernel is there for these log-probs: float32, on a CUDA device, and built."""
    return logp_T.is_cuda and logp_T.dtype == torch.float32 and is_installed()


def policy_loss(
    config: ObjectiveConfig,
    batch: ResponseTokens,
    denominator: float,
    rewards: GroupRewards | None = None,
    library: str = "",
) -> PolicyLoss:
    """`loss.policy_loss` by the kernel, whose gradients are the closed form. Differentiable once.

    Args:
        batch: float32; the tokens of a sample stand together, in the order of the samples.
        rewards: where given, the advantages are worked out from them, and `batch.advantages_S` is not read.
        library: path of another build of the kernel than the one made at installation.

    Raises:
        ValueError: as `loss.policy_loss`; or a dtype, a device or a size of group that the kernel is not written for.
    """
    check_complete(config, batch, denominator)
    logp_T = batch.logp_T.detach()
    if logp_T.dtype != torch.float32:
        raise ValueError(f"logp_T must be float32 for the kernel, got {logp_T.dtype}: use loss.policy_loss")
    is_sorted = (batch.sample_index_T.diff() >= 0).all()
    if logp_T.is_cuda:
        torch._assert_async(is_sorted, "the tokens of a sample must stand together, in the order of the samples")
    elif not is_sorted:
        raise ValueError("sample_index_T must not fall: let the tokens of a sample stand together, in their order")
    if rewards is not None and len(rewards.index_S) != len(batch.advantages_S):
        raise ValueError(f"index_S must name {len(batch.advantages_S)} samples, got {len(rewards.index_S)}")
    samples = torch.arange(len(batch.advantages_S) + 1, device=logp_T.device)
    given: dict[str, Tensor | None] = {
        "old_logp": batch.old_logp_T,
        "sampler_logp": batch.sampler_logp_T,
        "reference_logp": batch.reference_logp_T,
        "entropy": None if batch.entropy_T is None else batch.entropy_T.detach(),
        "mask": batch.mask_T,
    }
    if rewards is None:
        given["advantages"] = batch.advantages_S.float()
    else:
        largest = int(rewards.group_offsets.diff().max()) if len(rewards.rewards_R) else 0
        if largest > MOST_IN_GROUP:
            raise ValueError(f"a group has {largest} samples, more than {MOST_IN_GROUP}: use loss.policy_loss")
        names = {"rewards": rewards.rewards_R, "group_offsets": rewards.group_offsets, "reward_index": rewards.index_S}
        given |= {name: value.to(logp_T.device, non_blocking=True) for name, value in names.items()}
    g_T, h_T, _, totals = group_loss(
        logp_T,
        torch.searchsorted(batch.sample_index_T, samples).int(),
        _settings(config, denominator, rewards is not None),
        library=library,
        **given,
    )
    # Left out where it has no gradient, so that the backward pass over the vocabulary can leave its term out as well.
    entropy_T = batch.entropy_T if config.entropy_bonus > 0 else logp_T
    loss = _Fused.apply(batch.logp_T, entropy_T, totals[0].float(), g_T, h_T)
    return PolicyLoss(loss, g_T, h_T, _metrics(config, batch, totals))


def _settings(config: ObjectiveConfig, denominator: float, from_rewards: bool) -> list[float]:
    values = {
        "advantage_mode": _MODES[config.advantage] if from_rewards else 0,
        "advantage_epsilon": config.advantage_epsilon,
        "ratio_of_sequence": config.ratio == "sequence",
        "cispo": config.surrogate == "cispo",
        "clip_low": config.clip_low,
        "clip_high": config.clip_high,
        "dual_clip": float("inf") if config.dual_clip is None else config.dual_clip,
        "kl": _KLS[config.kl],
        "beta": config.beta,
        "entropy_bonus": config.entropy_bonus,
        "importance": _IMPORTANCES[config.importance],
        "importance_low": config.importance_low,
        "importance_high": config.importance_high,
        "sequence_mean": config.aggregation == "sequence_mean",
        "denominator": denominator,
    }
    return [float(values[name]) for name in SETTINGS]


class _Fused(torch.autograd.Function):
    """Gives autograd the gradients that the kernel has worked out."""

    @staticmethod
    def forward(ctx, logp_T, entropy_T, loss, g_T, h_T):
        ctx.save_for_backward(g_T, h_T)
        return loss.clone()

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        g_T, h_T = ctx.saved_tensors
        return grad * g_T, grad * h_T if ctx.needs_input_grad[1] else None, None, None, None


def _metrics(config: ObjectiveConfig, batch: ResponseTokens, totals: Tensor) -> MetricSums:
    """The kernel's sums under the names, and with the counts, of the definition."""
    named = dict(zip(TOTALS, totals, strict=True))
    tokens, sampled = named["tokens"], named["sampled"]
    per_token = ["ratio", "clip_low_share", "clip_high_share", "dual_clip_share", "kl_old"]
    per_token += ["kl_reference"] * (batch.reference_logp_T is not None) + ["entropy"] * (batch.entropy_T is not None)
    if config.importance != "none":
        per_token += ["importance_weight", "importance_bound_share"]
    sums = {name: torch.stack([named[name], tokens]) for name in per_token}
    if batch.sampler_logp_T is not None:
        sums |= {name: torch.stack([named[name], sampled]) for name in ("sampler_gap", "sampler_error")}
        sums["sampler_dropped_share"] = torch.stack([tokens - sampled, tokens])
    return sums
