"""Parameters of a model, and floating-point operations of a micro-batch. The costs are those of `policy.cost`."""

import functools

from pivotrl.planning.shards import layout_at, weights_of_rank
from pivotrl.planning.workload import Round
from pivotrl.policy.architecture import Architecture
from pivotrl.policy.config import ParallelConfig
from pivotrl.policy.cost import Cost


@functools.lru_cache(maxsize=16)
def parameters(arch: Architecture) -> int:
    """Of the whole model, a tied embedding once."""
    (chunk,) = weights_of_rank(arch, layout_at(ParallelConfig(), 0), freeze_router=False)
    return sum(weight.numel for weight in chunk)


def active_parameters(arch: Architecture) -> int:
    """Weights that one token is multiplied with, the head's included."""
    return round(Cost.of(arch).token / 6) + arch.hidden * arch.vocab


def mlp_weights(arch: Architecture) -> int:
    """Weights of one layer's MLP, or of its router and a token's experts, that one token is multiplied with."""
    if arch.experts:
        return arch.hidden * arch.experts + arch.top_k * 3 * arch.hidden * arch.expert_ffn
    return 3 * arch.hidden * arch.ffn


def pass_flops(
    arch: Architecture, work: Round, recompute: str, backward: bool, imbalance: float
) -> tuple[float, float]:
    """Of one micro-batch: through all layers, and in the head, which is the last pipeline stage's alone.

    The backward pass is twice the forward's linear layers and 2.5 times its attention; the head makes its logits again.
    `recompute` adds one more forward pass of the MLPs (`selective`), or of the layers (`full`).

    Args:
        backward: with the backward pass.
        imbalance: the fullest rank's share of the experts' work over the mean: the others wait for it.
    """
    cost = Cost.of(arch)
    mlp = 2 * arch.layers * mlp_weights(arch) * work.tokens
    linear = cost.token / 3 * work.tokens - mlp
    mlp *= imbalance if arch.experts else 1.0
    pairs, head = cost.pair / 3.5 * work.pairs, cost.response / 4 * work.responses
    if not backward:
        return linear + mlp + pairs, head
    full, some = recompute == "full", recompute != "none"
    return linear * (3 + full) + mlp * (3 + some) + pairs * (3.5 + full), head * 4
