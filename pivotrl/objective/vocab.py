"""Log-probs and entropies from logits whose vocabulary is split over tensor-parallel ranks.

Legend: N tokens, V columns of this rank's shard (the last of them may be padding), R ranks.

With z = x / T, per row and rank: m = max x, S = sum exp(z - m/T), U = sum exp(z - m/T) (z - m/T). Ranks merge by
    M = max m_r,  a_r = (m_r - M) / T,  S = sum S_r exp(a_r),  U = sum exp(a_r) (U_r + S_r a_r)
and then, for the target y,
    logp = (x_y - M) / T - log S,    H = log S - U / S
    d x_j = (1/T) [g (1[j = y] - p_j) - h p_j (log p_j + H)],    g, h the gradients of logp and H.
Each rank holds the merged M, log S and H, so the backward pass needs no collective. log p is always formed as
(x - M) / T - log S: a stored M / T + log S would lose the second term to rounding where logits are huge.

The two passes over the vocabulary (one read; one read and one write) are Triton kernels on a GPU (`kernels/`) and
`rows.py` elsewhere. `head.py` runs them on logits that are never whole.
"""

from types import ModuleType
from typing import NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor
from torch.autograd.function import once_differentiable

from pivotrl.objective import kernels, rows
from pivotrl.objective.rows import LOG_ZERO

IGNORED = -100
"""Target of a row that does not count: log-prob, entropy and gradient are 0, and its logits are not read."""


def vocab_parallel_logprob(
    logits_NV: Tensor,
    targets_N: Tensor,
    tp_group: dist.ProcessGroup | None = None,
    temperature: float = 1.0,
    vocabulary: int | None = None,
    in_place: bool = False,
) -> tuple[Tensor, Tensor]:
    """Log-probs of the targets and entropies under softmax(logits / temperature) over the whole vocabulary.

    One all-gather of 4 numbers per token forward, nothing backward. Differentiable once, in both outputs. Every rank of
    `tp_group` gets the same outputs, must send back the same gradients (it does where all compute the same loss), and
    gets the gradient of its own columns. Columns of -inf (masked actions) have probability and gradient 0.

    Args:
        logits_NV: this rank's columns [rank V, rank V + V), of any floating dtype and row stride. Kept, not copied, for
            the backward pass: changed in place before that, autograd raises.
        targets_N: int64 ids in the whole vocabulary or IGNORED, the same on every rank.
        tp_group: the ranks that hold the other columns, V each. None: this rank has the whole vocabulary.
        temperature: > 0, finite; the one that the tokens were sampled with.
        vocabulary: ids that there are, where the last columns of all shards together are padding: those have
            probability and gradient 0, whatever they hold. None: there is no padding.
        in_place: the backward pass writes the gradient over the logits, in their own memory. A second one then raises.

    Returns:
        (logp_N, entropy_N) in nats, float64 for float64 logits, else float32.

    Raises:
        ValueError: shapes, dtypes or devices do not fit, the temperature is not positive and finite, rows that are one
            in memory are to be written in place, or a target is outside the vocabulary (on a GPU an assertion on the
            device fails instead, so that no launch has to wait for the answer).
    """
    if logits_NV.ndim != 2 or targets_N.shape != logits_NV.shape[:1]:
        raise ValueError(
            f"logits must be [N, V] and targets [N], got {list(logits_NV.shape)} and {list(targets_N.shape)}"
        )
    check_kinds("logits_NV", logits_NV, targets_N)
    if in_place and len(logits_NV) > 1 and logits_NV.stride(0) == 0:
        raise ValueError("in_place: the rows are one in memory, so one row's gradient would overwrite another's")
    shard = shard_of(logits_NV.shape[1], targets_N, tp_group, temperature, vocabulary)
    return _VocabParallelLogprob.apply(logits_NV, targets_N, tp_group, temperature, shard, in_place)


def check_kinds(name: str, values: Tensor, targets_N: Tensor) -> None:
    """Raise ValueError for dtypes that no pass is written for, and for targets on another device than `values`."""
    if values.dtype not in (torch.float16, torch.bfloat16, torch.float32, torch.float64):
        raise ValueError(f"{name} must be float16, bfloat16, float32 or float64, got {values.dtype}")
    if targets_N.dtype != torch.int64 or targets_N.device != values.device:
        raise ValueError(
            f"targets_N must be torch.int64 on {values.device}, got {targets_N.dtype} on {targets_N.device}"
        )


class Shard(NamedTuple):
    """This rank's columns, as both passes want them."""

    first_column: int
    """Id of the first."""
    num_valid: int
    """How many there are before the padding."""


def shard_of(
    columns: int, targets_N: Tensor, tp_group: dist.ProcessGroup | None, temperature: float, vocabulary: int | None
) -> Shard:
    """Where this rank's `columns` stand. Raises ValueError as `vocab_parallel_logprob` does, for all but the shapes."""
    if not 0 < temperature < float("inf"):
        raise ValueError(f"temperature must be positive and finite, got {temperature}")
    all_columns = columns * (1 if tp_group is None else dist.get_world_size(tp_group))
    vocabulary = all_columns if vocabulary is None else vocabulary
    if not 0 < vocabulary <= all_columns:
        raise ValueError(f"vocabulary must be in [1, {all_columns}], the columns of all shards, got {vocabulary}")
    inside_N = ((targets_N >= 0) & (targets_N < vocabulary)) | (targets_N == IGNORED)
    if targets_N.is_cuda:
        torch._assert_async(inside_N.all(), f"a target is outside [0, {vocabulary})")
    elif not inside_N.all():
        raise ValueError(f"targets must be in [0, {vocabulary}) or {IGNORED}, got {targets_N[~inside_N][0].item()}")
    first_column = columns * (0 if tp_group is None else dist.get_rank(tp_group))
    return Shard(first_column, min(max(vocabulary - first_column, 0), columns))


class Rows(NamedTuple):
    """What is known of every row once the ranks have merged what they know; in `write_d_logits`' order but the last."""

    maximum_N: Tensor
    log_sum_N: Tensor
    entropy_N: Tensor
    logp_N: Tensor


def merge(stats_4N: Tensor, targets_N: Tensor, tp_group: dist.ProcessGroup | None, temperature: float) -> Rows:
    """From each rank's `shard_stats` to the rows' log-probs and entropies, in one all-gather."""
    maximum_N, sum_N, weighted_N, target_N = _merge(stats_4N, tp_group, temperature)
    log_sum_N = sum_N.log()
    ignored_N = targets_N < 0
    entropy_N = (log_sum_N - weighted_N / sum_N).masked_fill(ignored_N, 0.0)
    logp_N = ((target_N - maximum_N) / temperature - log_sum_N).masked_fill(ignored_N, 0.0)
    return Rows(maximum_N, log_sum_N, entropy_N, logp_N)


class _VocabParallelLogprob(torch.autograd.Function):
    @staticmethod
    def forward(ctx, logits_NV, targets_N, tp_group, temperature, shard, in_place):
        stats_4N = passes_for(logits_NV).shard_stats(logits_NV, targets_N, *shard, temperature)
        *known, logp_N = merge(stats_4N, targets_N, tp_group, temperature)
        ctx.save_for_backward(logits_NV, targets_N, *known)
        ctx.placement = (*shard, temperature)
        ctx.in_place = in_place
        ctx.set_materialize_grads(False)
        return logp_N, known[-1]

    @staticmethod
    @once_differentiable
    def backward(ctx, g_N, h_N):
        logits_NV, targets_N, *known = ctx.saved_tensors
        g_N = torch.zeros_like(known[0]) if g_N is None else g_N
        out_NV = logits_NV.detach() if ctx.in_place else torch.empty_like(logits_NV)
        passes_for(logits_NV).write_d_logits(logits_NV, out_NV, targets_N, *known, g_N, h_N, *ctx.placement)
        if ctx.in_place:  # a kernel's writes go unseen: without this a second backward pass would read the gradient
            torch.autograd.graph.increment_version(logits_NV)
        return out_NV, None, None, None, None, None


def passes_for(logits_NV: Tensor) -> ModuleType:
    """The module that makes the two passes over these logits."""
    if not kernels.runs_on(logits_NV):
        return rows
    from pivotrl.objective.kernels import passes

    return passes


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
