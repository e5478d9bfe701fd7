"""Log-probs and entropies from logits whose vocabulary is split over tensor-parallel ranks.

Legend: N tokens, C tokens of one chunk, V columns of this rank's shard, R ranks.

With z = x / T, per row and rank: m = max x, S = sum exp(z - m/T), U = sum exp(z - m/T) (z - m/T). Ranks merge by
    M = max m_r,  a_r = (m_r - M) / T,  S = sum S_r exp(a_r),  U = sum exp(a_r) (U_r + S_r a_r)
and then, for the target y,
    logp = (x_y - M) / T - log S,    H = log S - U / S
    d x_j = (1/T) [g (1[j = y] - p_j) - h p_j (log p_j + H)],    g, h the gradients of logp and H.
Each rank holds the merged M, log S and H, so the backward pass needs no collective. log p is always formed as
(x - M) / T - log S: a stored M / T + log S would lose the second term to rounding where logits are huge.
"""

from collections.abc import Iterator

import torch
import torch.distributed as dist
from torch import Tensor
from torch.autograd.function import once_differentiable

CHUNK_ELEMENTS = 1 << 22
"""Logits worked on at a time, in elements; two float32 buffers of this size (16 MiB each) are live."""

LOG_ZERO = -1000.0
"""e to this is exactly 0, in float64 too. It stands in for -inf, whose product with a probability of 0 would be NaN."""


def vocab_parallel_logprob(
    logits_NV: Tensor, targets_N: Tensor, tp_group: dist.ProcessGroup | None = None, temperature: float = 1.0
) -> tuple[Tensor, Tensor]:
    """Log-probs of the targets and entropies under softmax(logits / temperature) over the whole vocabulary.

    One all-gather of 4 numbers per token forward, nothing backward. Differentiable once, in both outputs. Every rank of
    `tp_group` gets the same outputs, must send back the same gradients (it does where all compute the same loss), and
    gets the gradient of its own columns. Columns of -inf (padding, masked actions) have probability and gradient 0.

    Args:
        logits_NV: this rank's columns [rank V, rank V + V), of any floating dtype and row stride. Kept, not copied, for
            the backward pass: changed in place before that, autograd raises.
        targets_N: int64 ids in the whole vocabulary, the same on every rank.
        tp_group: the ranks that hold the other columns, V each. None: this rank has the whole vocabulary.
        temperature: > 0; the one that the tokens were sampled with.

    Returns:
        (logp_N, entropy_N) in nats, float64 for float64 logits, else float32.

    Raises:
        ValueError: shapes do not fit, the temperature is not positive, or a target is outside the vocabulary.
    """
    if logits_NV.ndim != 2 or targets_N.shape != logits_NV.shape[:1]:
        raise ValueError(
            f"logits must be [N, V] and targets [N], got {list(logits_NV.shape)} and {list(targets_N.shape)}"
        )
    if not temperature > 0:
        raise ValueError(f"temperature must be positive, got {temperature}")
    vocabulary = logits_NV.shape[1] * (1 if tp_group is None else dist.get_world_size(tp_group))
    outside_N = (targets_N < 0) | (targets_N >= vocabulary)
    if outside_N.any():
        raise ValueError(f"targets must be in [0, {vocabulary}), got {targets_N[outside_N][0].item()}")
    return _VocabParallelLogprob.apply(logits_NV, targets_N, tp_group, temperature)


class _VocabParallelLogprob(torch.autograd.Function):
    @staticmethod
    def forward(ctx, logits_NV, targets_N, tp_group, temperature):
        rank = 0 if tp_group is None else dist.get_rank(tp_group)
        local_targets_N = targets_N - rank * logits_NV.shape[1]
        stats = [_shard_stats(*chunk, temperature) for chunk in _chunks(logits_NV, local_targets_N)]
        max_N, sum_N, weighted_N, target_N = _merge(torch.cat(stats, dim=1), tp_group, temperature)
        log_sum_N = sum_N.log()
        entropy_N = log_sum_N - weighted_N / sum_N
        ctx.save_for_backward(logits_NV, local_targets_N, max_N, log_sum_N, entropy_N)
        ctx.temperature = temperature
        ctx.set_materialize_grads(False)
        return (target_N - max_N) / temperature - log_sum_N, entropy_N

    @staticmethod
    @once_differentiable
    def backward(ctx, g_N, h_N):
        logits_NV, local_targets_N, max_N, log_sum_N, entropy_N = ctx.saved_tensors
        g_N = torch.zeros_like(max_N) if g_N is None else g_N
        d_logits_NV = torch.empty_like(logits_NV)
        rows = (local_targets_N, max_N, log_sum_N, entropy_N, g_N, h_N)
        for logits_CV, out_CV, *chunk in _chunks(logits_NV, d_logits_NV, *rows):
            out_CV.copy_(_d_logits(logits_CV, *chunk, ctx.temperature))
        return d_logits_NV, None, None, None


def _chunks(first_NV: Tensor, *others: Tensor | None) -> Iterator[tuple[Tensor | None, ...]]:
    """Cut tensors (or Nones) along their rows together, so that the first has CHUNK_ELEMENTS a chunk; one if empty."""
    rows = max(1, CHUNK_ELEMENTS // first_NV.shape[1])
    for start in range(0, max(len(first_NV), 1), rows):
        yield tuple(None if tensor is None else tensor[start : start + rows] for tensor in (first_NV, *others))


def _scaled_distance(logits_CV: Tensor, max_C: Tensor, temperature: float) -> Tensor:
    """(x - max) / T, at least LOG_ZERO, in a new tensor of the dtype of `max_C`, to which the subtraction promotes."""
    return (logits_CV - max_C[:, None]).mul_(1 / temperature).clamp_(min=LOG_ZERO)


def _shard_stats(logits_CV: Tensor, local_targets_C: Tensor, temperature: float) -> Tensor:
    """[4, C]: m, S, U of this shard and the logit of the target, 0 where another shard has it."""
    dtype = torch.float64 if logits_CV.dtype == torch.float64 else torch.float32
    max_C = logits_CV.amax(dim=1).to(dtype)
    # A shard of nothing but padding has max -inf; its S and U are then 0.
    distance_CV = _scaled_distance(logits_CV, max_C.masked_fill(max_C == -torch.inf, 0.0), temperature)
    exp_CV = distance_CV.exp()
    sum_C = exp_CV.sum(dim=1)
    weighted_C = exp_CV.mul_(distance_CV).sum(dim=1)
    columns_C, elsewhere_C = _columns(local_targets_C, logits_CV)
    target_C = logits_CV.gather(1, columns_C[:, None])[:, 0].to(dtype)
    return torch.stack([max_C, sum_C, weighted_C, target_C.masked_fill(elsewhere_C, 0.0)])


def _columns(local_targets_C: Tensor, logits_CV: Tensor) -> tuple[Tensor, Tensor]:
    """Each target's column in this shard, 0 where another shard has it, and bool: whether another has."""
    elsewhere_C = (local_targets_C < 0) | (local_targets_C >= logits_CV.shape[1])
    return local_targets_C.masked_fill(elsewhere_C, 0), elsewhere_C


def _merge(stats_4N: Tensor, tp_group: dist.ProcessGroup | None, temperature: float) -> tuple[Tensor, ...]:
    """M, S, U and the target's logit over all shards."""
    if tp_group is None:
        return tuple(stats_4N)
    stats_R4N = stats_4N.new_empty(dist.get_world_size(tp_group), *stats_4N.shape)
    # Flat, since gloo fills no stacked output.
    dist.all_gather_into_tensor(stats_R4N.view(-1), stats_4N.view(-1), group=tp_group)
    max_RN, sum_RN, weighted_RN, target_RN = stats_R4N.unbind(dim=1)
    max_N = max_RN.amax(dim=0)
    shift_RN = ((max_RN - max_N) / temperature).clamp(min=LOG_ZERO)
    scale_RN = shift_RN.exp()
    weighted_N = (scale_RN * (weighted_RN + sum_RN * shift_RN)).sum(dim=0)
    return max_N, (scale_RN * sum_RN).sum(dim=0), weighted_N, target_RN.sum(dim=0)


def _d_logits(logits_CV, local_targets_C, max_C, log_sum_C, entropy_C, g_C, h_C, temperature) -> Tensor:
    log_p_CV = _scaled_distance(logits_CV, max_C, temperature).sub_(log_sum_C[:, None])
    d_CV = log_p_CV.exp()
    if h_C is None:
        d_CV.mul_(-g_C[:, None])
    else:
        d_CV.mul_(log_p_CV.add_(entropy_C[:, None]).mul_(-h_C[:, None]).sub_(g_C[:, None]))
    columns_C, elsewhere_C = _columns(local_targets_C, logits_CV)
    d_CV.scatter_add_(1, columns_C[:, None], g_C.masked_fill(elsewhere_C, 0.0)[:, None])
    return d_CV.mul_(1 / temperature)
