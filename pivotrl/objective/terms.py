"""The per-token terms of the loss, each with its derivative: where every formula of the objective is written, once.

Legend: T response tokens.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from pivotrl.objective.config import Importance, KlEstimator

MAX_LOG_RATIO = 20.0
"""exp is taken of at most this, so that one token cannot overflow a batch; past it that exp gives no gradient."""
MAX_KL = 10.0
"""An estimate is held in [-MAX_KL, MAX_KL], as NeMo-RL holds it; at the bound it gives no gradient."""


class PolicyTerm(NamedTuple):
    """The clipped policy-gradient term of each token and what became of its ratio."""

    value_T: Tensor
    slope_T: Tensor
    """d value / d log-ratio, detached."""
    ratio_T: Tensor
    """Before clipping, detached."""
    at_low_T: Tensor
    """bool: ratio below 1 - clip_low, where that bound holds (clip: negative advantage, and no gradient)."""
    at_high_T: Tensor
    """bool: ratio above 1 + clip_high, where that bound holds (clip: positive advantage, and no gradient)."""
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


def cispo_term(
    logp_T: Tensor, log_ratio_T: Tensor, advantage_T: Tensor, clip_low: float, clip_high: float
) -> PolicyTerm:
    """CISPO (MiniMax-M1, arXiv 2506.13585, eq. 4) as a loss: -A w log p, where w = clip(r, 1 - clip_low, 1 + clip_high)
    is a constant. Its derivative to log p, and so to the log-ratio, is -A w at every token.
    """
    ratio_T = log_ratio_T.detach().clamp(max=MAX_LOG_RATIO).exp()
    slope_T = -advantage_T * ratio_T.clamp(1 - clip_low, 1 + clip_high)
    at_low_T, at_high_T = ratio_T < 1 - clip_low, ratio_T > 1 + clip_high
    return PolicyTerm(slope_T * logp_T, slope_T, ratio_T, at_low_T, at_high_T, torch.zeros_like(at_low_T))


def importance_weight(
    importance: Importance, log_weight_T: Tensor, low: float, high: float
) -> tuple[Tensor, Tensor | None]:
    """Each token's weight w = e^log_weight, trainer's / sampler's probability, detached; and where a bound holds.

    - `truncate` (truncated importance sampling): min(max(w, low), high).
    - `mask` (IcePop): w where low <= w <= high, else 0.
    - `none`: 1, and no token is at a bound (None).
    """
    if importance == "none":
        return torch.ones_like(log_weight_T), None
    weight_T = log_weight_T.detach().clamp(max=MAX_LOG_RATIO).exp()
    outside_T = (weight_T < low) | (weight_T > high)
    return (weight_T.masked_fill(outside_T, 0.0) if importance == "mask" else weight_T.clamp(low, high)), outside_T


def kl_term(estimator: KlEstimator, logp_T: Tensor, reference_logp_T: Tensor) -> tuple[Tensor, Tensor]:
    """Estimate KL(policy || reference) from tokens that the policy sampled (Schulman, "Approximating KL Divergence").

    With x = reference - policy log-prob, held in [-MAX_LOG_RATIO, MAX_LOG_RATIO]: k1 = -x, k2 = x^2 / 2,
    k3 = e^x - 1 - x, each then held in [-MAX_KL, MAX_KL].

    Returns:
        The estimates [T], and their derivatives to `logp_T` [T], detached: 1, -x and 1 - e^x; 0 beyond a bound.
    """
    x_T = (reference_logp_T - logp_T).clamp(-MAX_LOG_RATIO, MAX_LOG_RATIO)
    if estimator == "k1":
        value_T, slope_T = -x_T, torch.ones_like(x_T)
    elif estimator == "k2":
        value_T, slope_T = x_T.square() / 2, -x_T.detach()
    else:
        value_T, slope_T = x_T.expm1() - x_T, -x_T.detach().expm1()
    # Where x is at its bound, every estimate is beyond its own.
    return value_T.clamp(-MAX_KL, MAX_KL), slope_T.masked_fill(value_T.detach().abs() > MAX_KL, 0.0)
