"""The definition of the loss, in plain PyTorch: log-probs and advantages -> loss, its gradient per token, metrics.

Legend: N samples of the global batch; one micro-batch packs S samples with T response tokens in all.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import NamedTuple

import torch
from torch import Tensor

from pivotrl.objective.advantage import group_advantages
from pivotrl.objective.config import ObjectiveConfig
from pivotrl.objective.metrics import MetricSums, sum_metrics
from pivotrl.objective.terms import PolicyTerm, cispo_term, importance_weight, kl_term, policy_term


@dataclass(frozen=True)
class ResponseTokens:
    """The response tokens of one packed micro-batch, flat. Log-probs are in nats, float32 or float64.

    All tokens of a sample are in one micro-batch: `sequence_mean` and `ratio: sequence` take means over a sample here.

    Raises:
        ValueError: a tensor whose shape, dtype or device does not fit `logp_T`, log-probs in half precision, or a
            sample index outside [0, S) (on a GPU an assertion on the device fails instead: nobody waits for it).
    """

    logp_T: Tensor
    """Log-probs under the policy in training, at the sampling temperature. Gradients flow here and to `entropy_T`."""
    sample_index_T: Tensor
    """int64, in [0, S): the sample each token belongs to."""
    advantages_S: Tensor
    """Floating point."""
    old_logp_T: Tensor | None = None
    """Log-probs under the policy before the batch's first update. None: this is that update, and the ratio is 1 (with
    gradient)."""
    reference_logp_T: Tensor | None = None
    """Log-probs under the frozen reference: required where beta > 0, else only measured."""
    sampler_logp_T: Tensor | None = None
    """Log-probs that the rollout engine reported: required where `importance` is set, else only measured. A token whose
    value is not finite is dropped from the loss and counted."""
    entropy_T: Tensor | None = None
    """Entropy (nats) of the policy at each token: required where entropy_bonus > 0, else only measured."""
    mask_T: Tensor | None = None
    """bool: tokens that count. What the others hold, NaN included, has no influence. None: all count."""

    def __post_init__(self) -> None:
        shape, dtype = self.logp_T.shape, self.logp_T.dtype
        if len(shape) != 1 or dtype not in (torch.float32, torch.float64):
            raise ValueError(f"logp_T must be float32 or float64 [T], got {dtype} {list(shape)}")
        device, kinds = self.logp_T.device, {"sample_index_T": torch.int64, "mask_T": torch.bool}
        for name in (field.name for field in fields(self) if field.name.endswith("_T")):
            value, kind = getattr(self, name), kinds.get(name, dtype)
            if value is not None and value.shape != shape:
                raise ValueError(f"{name} must be {list(shape)} as logp_T is, got {list(value.shape)}")
            if value is not None and (value.dtype != kind or value.device != device):
                raise ValueError(f"{name} must be {kind} on {device}, got {value.dtype} on {value.device}")
        given = self.advantages_S
        if given.ndim != 1 or not given.is_floating_point() or given.device != device:
            found = f"{given.dtype} {list(given.shape)} on {given.device}"
            raise ValueError(f"advantages_S must be floating point [S] on {device}, got {found}")
        inside = ((self.sample_index_T >= 0) & (self.sample_index_T < len(given))).all()
        if device.type == "cuda":
            torch._assert_async(inside, f"sample_index_T must be in [0, {len(given)}), the samples")
        elif not inside:
            found = self.sample_index_T.tolist()
            raise ValueError(f"sample_index_T must be in [0, {len(given)}), the samples, got {found}")


@dataclass(frozen=True)
class GroupRewards:
    """The rewards of the whole batch, group after group, and where a micro-batch's samples stand among them.

    Raises:
        ValueError: offsets that do not rise from 0 to R, a reward that is not finite, or an index outside [0, R).
    """

    rewards_R: Tensor
    """float64."""
    group_offsets: Tensor
    """int32 [groups + 1]: group i is [offsets[i], offsets[i + 1])."""
    index_S: Tensor
    """int32: place of each sample of the micro-batch in `rewards_R`."""

    def __post_init__(self) -> None:
        size, offsets = len(self.rewards_R), self.group_offsets
        if self.rewards_R.dtype != torch.float64 or self.rewards_R.ndim != 1:
            raise ValueError(f"rewards_R must be float64 [R], got {self.rewards_R.dtype} {list(self.rewards_R.shape)}")
        if not self.rewards_R.isfinite().all():
            index = int((~self.rewards_R.isfinite()).nonzero()[0])
            raise ValueError(f"rewards_R must be finite, got {self.rewards_R[index].item()} at {index}")
        for name in ("group_offsets", "index_S"):
            value = getattr(self, name)
            if value.dtype != torch.int32 or value.ndim != 1:
                raise ValueError(f"{name} must be int32 of one dimension, got {value.dtype} {list(value.shape)}")
        if len(offsets) < 1 or offsets[0] != 0 or offsets[-1] != size or not (offsets.diff() > 0).all():
            raise ValueError(f"group_offsets must rise from 0 to {size}, the rewards, got {offsets.tolist()}")
        if ((self.index_S < 0) | (self.index_S >= size)).any():
            raise ValueError(f"index_S must be in [0, {size}), got {self.index_S.tolist()}")

    def advantages(self, config: ObjectiveConfig) -> Tensor:
        """Advantages of the micro-batch's samples: float64 [S]."""
        groups = torch.arange(len(self.group_offsets) - 1).repeat_interleave(self.group_offsets.diff().cpu().long())
        all_R = group_advantages(self.rewards_R, groups, config.advantage, config.advantage_epsilon)
        return all_R[self.index_S.long()]


@dataclass(frozen=True)
class PolicyLoss:
    """What one micro-batch adds to the loss of the global batch."""

    loss: Tensor
    """Scalar, differentiable. Its sum over all micro-batches and data-parallel ranks is the global loss."""
    g_T: Tensor
    """d loss / d logp_T in closed form, detached: what autograd gives too."""
    h_T: Tensor
    """d loss / d entropy_T, likewise."""
    metrics: MetricSums


def global_denominator(
    config: ObjectiveConfig, num_tokens_N: Sequence[int], stands_for_N: Sequence[float] | None = None
) -> float:
    """What the loss of every micro-batch is divided by, from the lengths of *all* responses of the global batch.

    Computed once, before the first micro-batch, on every rank from the same list; then the gradient of the global batch
    is the same however it is cut into micro-batches and ranks. Only tokens that `mask_T` lets count have a place in a
    length.
        token_mean      number of response tokens
        sequence_mean   number of samples
        constant        number of samples x tokens_per_sample

    Args:
        stands_for_N: how many samples of its length each one counts as; None: all as one.

    Raises:
        ValueError: no sample, or a sample without a response token.
    """
    num_samples, shortest = len(num_tokens_N), min(num_tokens_N, default=0)
    if shortest < 1:
        raise ValueError(f"need samples of >= 1 response token each, got {num_samples}, the shortest of {shortest}")
    counts_N = [1.0] * num_samples if stands_for_N is None else stands_for_N
    if config.aggregation == "token_mean":
        return float(sum(count * length for count, length in zip(counts_N, num_tokens_N, strict=True)))
    if config.aggregation == "sequence_mean":
        return float(sum(counts_N))
    assert config.tokens_per_sample is not None
    return sum(counts_N) * config.tokens_per_sample


def check_complete(config: ObjectiveConfig, batch: ResponseTokens, denominator: float) -> None:
    """Raise ValueError where a term of the objective lacks its tensor, or the denominator is not positive."""
    if config.beta > 0 and batch.reference_logp_T is None:
        raise ValueError(f"beta is {config.beta:g}, which needs reference_logp_T: run the reference pass, or set 0")
    if config.entropy_bonus > 0 and batch.entropy_T is None:
        raise ValueError(f"entropy_bonus is {config.entropy_bonus:g}, which needs entropy_T: pass it, or set 0")
    if config.importance != "none" and batch.sampler_logp_T is None:
        raise ValueError(f"importance is {config.importance}, which needs sampler_logp_T: pass it, or set none")
    if not 0 < denominator < float("inf"):
        raise ValueError(
            f"denominator must be positive and finite, got {denominator}: use global_denominator of the whole batch"
        )


def policy_loss(config: ObjectiveConfig, batch: ResponseTokens, denominator: float) -> PolicyLoss:
    """Sum over the micro-batch's tokens of w (policy term + beta KL - entropy_bonus H), with the terms of `terms.py`.

    w is 1 / denominator, for `sequence_mean` also divided by the number of the sample's tokens, times the importance
    weight of the token (constant, 1 without `importance`). The policy term's log-ratio x is logp - old per token, or
    with `ratio: sequence` (GSPO) the mean of that over the sample's n tokens, each of which then has 1 / n of the
    gradient of all n terms:
        g = d loss / d logp = w d policy term / d x + w beta d KL / d logp       (token)
        g = 1/n sum over the sample (w d policy term / d x) + w beta d KL / d logp   (sequence)
        h = d loss / d H    = -w entropy_bonus
    Without importance weights all tokens of a sample have one w and one slope, and the two lines agree.

    Args:
        denominator: `global_denominator` of the whole global batch, never of this micro-batch.

    Raises:
        ValueError: beta, entropy_bonus or importance is set and its tensor is missing, or the denominator is not
            positive.
    """
    check_complete(config, batch, denominator)
    dtype = batch.logp_T.dtype
    mask_T = torch.ones_like(batch.logp_T, dtype=torch.bool) if batch.mask_T is None else batch.mask_T
    logp_T = batch.logp_T.masked_fill(~mask_T, 0.0)
    old_logp_T = logp_T.detach() if batch.old_logp_T is None else batch.old_logp_T.masked_fill(~mask_T, 0.0)
    num_tokens_T = _sum_over_sample(mask_T.to(dtype), batch).clamp(min=1)
    trust = _trust(config, batch, mask_T, old_logp_T)
    weight_T = trust.weight_T / denominator
    if config.aggregation == "sequence_mean":
        weight_T = weight_T / num_tokens_T

    log_ratio_T = logp_T - old_logp_T
    if config.ratio == "sequence":
        log_ratio_T = _sum_over_sample(log_ratio_T, batch) / num_tokens_T
    advantage_T = batch.advantages_S.to(dtype)[batch.sample_index_T]
    bounds = (config.clip_low, config.clip_high)
    if config.surrogate == "cispo":
        policy = cispo_term(logp_T, log_ratio_T, advantage_T, *bounds)
    else:
        policy = policy_term(log_ratio_T, advantage_T, *bounds, config.dual_clip)
    value_T, g_T = policy.value_T, weight_T * policy.slope_T
    if config.ratio == "sequence":
        g_T = (_sum_over_sample(g_T, batch) / num_tokens_T).masked_fill(~mask_T, 0.0)
    if config.beta > 0:
        kl_T, kl_slope_T = kl_term(config.kl, logp_T, batch.reference_logp_T.masked_fill(~mask_T, 0.0))
        value_T = value_T + config.beta * kl_T
        g_T = g_T + weight_T * config.beta * kl_slope_T
    if config.entropy_bonus > 0:
        value_T = value_T - config.entropy_bonus * batch.entropy_T.masked_fill(~mask_T, 0.0)
    return PolicyLoss(
        loss=(weight_T * value_T).sum(),
        g_T=g_T,
        h_T=weight_T * -config.entropy_bonus,
        metrics=_metrics(batch, policy, trust, mask_T),
    )


class _Trust(NamedTuple):
    """How far each token is believed to be a sample of the trainer's policy; all detached."""

    weight_T: Tensor
    """0 where a token is masked or dropped, 1 where nothing is weighed."""
    dropped_T: Tensor | None
    """bool: the sampler's log-prob is not finite. None: the sampler's are not known."""
    at_bound_T: Tensor | None
    """bool: the importance weight was cut, or the token dropped, at a bound."""


def _trust(config: ObjectiveConfig, batch: ResponseTokens, mask_T: Tensor, old_logp_T: Tensor) -> _Trust:
    """The importance weight between sampler and trainer, both as they were when the batch was sampled."""
    if batch.sampler_logp_T is None:
        return _Trust(mask_T.to(old_logp_T.dtype), None, None)
    dropped_T = mask_T & ~batch.sampler_logp_T.isfinite()
    kept_T = mask_T & ~dropped_T
    log_weight_T = old_logp_T - torch.where(kept_T, batch.sampler_logp_T, old_logp_T)
    weight_T, at_bound_T = importance_weight(
        config.importance, log_weight_T, config.importance_low, config.importance_high
    )
    return _Trust(weight_T.masked_fill(~kept_T, 0.0), dropped_T, at_bound_T)


def _sum_over_sample(values_T: Tensor, batch: ResponseTokens) -> Tensor:
    """Each token's entry is the sum over all tokens of its sample."""
    sums_S = values_T.new_zeros(len(batch.advantages_S)).index_add(0, batch.sample_index_T, values_T)
    return sums_S[batch.sample_index_T]


@torch.no_grad()
def _metrics(batch: ResponseTokens, policy: PolicyTerm, trust: _Trust, mask_T: Tensor) -> MetricSums:
    """Token metrics; the names depend only on which tensors are present, so all micro-batches of a run have the same.

    `ratio` and the clip shares are of the ratio that is clipped. `kl_old` is k3 of KL(old policy || policy).
    `sampler_gap` is |trainer - sampler| log-prob under the sampling weights, and `sampler_error` its exp (NeMo-RL's
    token_mult_prob_error), over the tokens whose sampler log-prob is finite; `sampler_dropped_share` are the others.
    """
    sampling_logp_T = batch.logp_T if batch.old_logp_T is None else batch.old_logp_T
    values = {
        "ratio": policy.ratio_T,
        "clip_low_share": policy.at_low_T,
        "clip_high_share": policy.at_high_T,
        "dual_clip_share": policy.at_dual_T,
        "kl_old": kl_term("k3", sampling_logp_T, batch.logp_T)[0],
    }
    if batch.reference_logp_T is not None:
        values["kl_reference"] = kl_term("k3", batch.logp_T, batch.reference_logp_T)[0]
    if batch.entropy_T is not None:
        values["entropy"] = batch.entropy_T
    sums = sum_metrics(values, mask_T)
    if trust.dropped_T is not None:
        gap_T = (sampling_logp_T - batch.sampler_logp_T).abs()
        sums |= sum_metrics({"sampler_gap": gap_T, "sampler_error": gap_T.exp()}, mask_T & ~trust.dropped_T)
        sums |= sum_metrics({"sampler_dropped_share": trust.dropped_T}, mask_T)
    if trust.at_bound_T is not None:
        shares = {"importance_weight": trust.weight_T, "importance_bound_share": trust.at_bound_T}
        sums |= sum_metrics(shares, mask_T)
    return sums
