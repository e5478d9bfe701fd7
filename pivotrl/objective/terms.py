"""The per-token terms of the loss, each with its derivative: where every formula of the objective is written, once.

Legend: T response tokens.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from pivotrl.objective.config import KlEstimator

MAX_LOG_RATIO = 20.0
"""exp is taken of at most this, so that one token cannot overflow a batch; past it that exp gives no gradient."""


class PolicyTerm(NamedTuple):
    """The clipped policy-gradient term of each token and what became of its ratio."""

    value_T: Tensor
    slope_T: Tensor
    """d value / d log-ratio, detached."""
    ratio_T: Tensor
    """Before clipping, detached."""
    at_low_T: Tensor
    """bool: negative advantage, ratio below 1 - clip_low: no gradient."""
    at_high_T: Tensor
    """bool: positive advantage, ratio above 1 + clip_high: no gradient."""
    at_dual_T: Tensor
    """bool: negative advantage, ratio above dual_clip: no gradient."""


def policy_term(
    log_ratio_T: Tensor, advantage_T: Tensor, clip_low: float, clip_high: float, dual_clip: float | None
) -> PolicyTerm:
    """PPO's pessimistic surrogate as a loss: max(-A r, -A clip(r, 1 - clip_low, 1 + clip_high)), r = e^log_ratio.

    With dual clip c (Ye et al., "Mastering Complex Control in MOBA Games") it is at most -A c where A < 0. For either
    sign of A only some of the bounds can bind, so the whole is -A bounded(r) with
        bounded(r) = min(r, 1 + clip_high)       where A >= 0
        bounded(r) = clamp(r, 1 - clip_low, c)   where A < 0
    and its derivative to the log-ratio is -A r inside the bounds (ends included) and 0 outside.
    """
    dual_clip = float("inf") if dual_clip is None else dual_clip
    ratio_T = log_ratio_T.clamp(max=MAX_LOG_RATIO).exp()
    negative_T = advantage_T < 0
    bounded_T = torch.where(negative_T, ratio_T.clamp(1 - clip_low, dual_clip), ratio_T.clamp(max=1 + clip_high))
    value_T = -advantage_T * bounded_T
    ratio_T = ratio_T.detach()
    at_low_T = negative_T & (ratio_T < 1 - clip_low)
    at_high_T = (advantage_T > 0) & (ratio_T > 1 + clip_high)
    at_dual_T = negative_T & (ratio_T > dual_clip)
    flat_T = at_low_T | at_high_T | at_dual_T | (log_ratio_T > MAX_LOG_RATIO)
    slope_T = (-advantage_T * ratio_T).masked_fill(flat_T, 0.0)
    return PolicyTerm(value_T, slope_T, ratio_T, at_low_T, at_high_T, at_dual_T)


def kl_term(estimator: KlEstimator, logp_T: Tensor, reference_logp_T: Tensor) -> tuple[Tensor, Tensor]:
    """Estimate KL(policy || reference) from tokens that the policy sampled (Schulman, "Approximating KL Divergence").

    With x = reference - policy log-prob: k1 = -x, k2 = x^2 / 2, k3 = e^x - 1 - x, constant from x = MAX_LOG_RATIO on.

    Returns:
        The estimates [T], and their derivatives to `logp_T` [T], detached: 1, -x and 1 - e^x.
    """
    x_T = reference_logp_T - logp_T
    if estimator == "k1":
        return -x_T, torch.ones_like(x_T)
    if estimator == "k2":
        return x_T.square() / 2, -x_T.detach()
    capped_T = x_T.clamp(max=MAX_LOG_RATIO)
    value_T = capped_T.expm1() - capped_T
    return value_T, -capped_T.detach().expm1().masked_fill(x_T > MAX_LOG_RATIO, 0.0)
