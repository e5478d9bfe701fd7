"""The two passes over the vocabulary in plain PyTorch: the kernels' definition, and what runs on a CPU.

Both work on chunks of rows, so that no float32 copy of the logits is ever whole.
Legend: N rows, C rows of a chunk, V columns of this rank's shard; m, d, S, U, H as in `objective.vocab`.
"""

from collections.abc import Iterator

import torch
from torch import Tensor

CHUNK_ELEMENTS = 1 << 20
"""Logits worked on at a time, in elements. Two float32 buffers of this size (4 MiB each, which caches hold) serve all
chunks: new ones for every chunk would leave holes in the heap that the next no longer fits."""
LOG_ZERO = -1000.0
"""e to this is exactly 0, in float64 too. It stands in for -inf, whose product with a probability of 0 would be NaN."""


def shard_stats(logits_NV: Tensor, targets_N: Tensor, first_column: int, num_valid: int, temperature: float) -> Tensor:
    """[4, N]: m, S, U of the first `num_valid` columns, and the logit of the target, 0 where another shard has it.

    float64 for float64 logits, else float32. Whatever stands for an ignored row, one with a negative target, is unused.
    """
    dtype = torch.float64 if logits_NV.dtype == torch.float64 else torch.float32
    logits_NV = logits_NV[:, :num_valid]
    buffers_2CV = _buffers(logits_NV, dtype)
    stats = [_chunk_stats(*chunk, buffers_2CV, first_column, temperature) for chunk in _chunks(logits_NV, targets_N)]
    return torch.cat(stats, dim=1)


def write_d_logits(
    logits_NV: Tensor,
    out_NV: Tensor,
    targets_N: Tensor,
    maximum_N: Tensor,
    log_sum_N: Tensor,
    entropy_N: Tensor,
    g_N: Tensor,
    h_N: Tensor | None,
    first_column: int,
    num_valid: int,
    temperature: float,
) -> None:
    """Fill `out_NV`, which may be `logits_NV` itself, with the logits' gradient; 0 in padding and ignored rows."""
    out_NV[:, num_valid:] = 0
    rows = (targets_N, maximum_N, log_sum_N, entropy_N, g_N, h_N)
    buffers_2CV = _buffers(logits_NV[:, :num_valid], maximum_N.dtype)
    for logits_CV, out_CV, *chunk in _chunks(logits_NV[:, :num_valid], out_NV[:, :num_valid], *rows):
        out_CV.copy_(_d_logits(logits_CV, *chunk, buffers_2CV, first_column, temperature))


def _rows_of_chunk(logits_NV: Tensor) -> int:
    return max(1, CHUNK_ELEMENTS // max(logits_NV.shape[1], 1))


def _buffers(logits_NV: Tensor, dtype: torch.dtype) -> Tensor:
    rows = min(_rows_of_chunk(logits_NV), len(logits_NV))
    return torch.empty(2, rows, logits_NV.shape[1], dtype=dtype, device=logits_NV.device)


def _chunks(first_NV: Tensor, *others: Tensor | None) -> Iterator[tuple[Tensor | None, ...]]:
    """Cut tensors (or Nones) along their rows together, so that the first has CHUNK_ELEMENTS a chunk; one if empty."""
    rows = _rows_of_chunk(first_NV)
    for start in range(0, max(len(first_NV), 1), rows):
        yield tuple(None if tensor is None else tensor[start : start + rows] for tensor in (first_NV, *others))


def _chunk_stats(
    logits_CV: Tensor, targets_C: Tensor, buffers_2CV: Tensor, first_column: int, temperature: float
) -> Tensor:
    distance_CV, exp_CV = buffers_2CV[:, : len(logits_CV)]
    dtype = buffers_2CV.dtype
    if not logits_CV.shape[1]:  # a shard of nothing but padding
        nothing_C = torch.zeros(len(logits_CV), dtype=dtype, device=logits_CV.device)
        stats_4C = torch.stack([nothing_C - torch.inf, nothing_C, nothing_C, nothing_C])
    else:
        max_C = logits_CV.amax(dim=1).to(dtype)
        # A shard of nothing but -inf has that maximum; its S and U are then 0.
        _scaled_distance(logits_CV, max_C.masked_fill(max_C == -torch.inf, 0.0), temperature, distance_CV)
        torch.exp(distance_CV, out=exp_CV)
        sum_C = exp_CV.sum(dim=1)
        weighted_C = exp_CV.mul_(distance_CV).sum(dim=1)
        columns_C, elsewhere_C = _columns(targets_C, first_column, logits_CV.shape[1])
        target_C = logits_CV.gather(1, columns_C[:, None])[:, 0].to(dtype)
        stats_4C = torch.stack([max_C, sum_C, weighted_C, target_C.masked_fill(elsewhere_C, 0.0)])
    return stats_4C


def _d_logits(
    logits_CV, targets_C, max_C, log_sum_C, entropy_C, g_C, h_C, buffers_2CV, first_column, temperature
) -> Tensor:
    log_p_CV, d_CV = buffers_2CV[:, : len(logits_CV)]
    _scaled_distance(logits_CV, max_C, temperature, log_p_CV).sub_(log_sum_C[:, None])
    torch.exp(log_p_CV, out=d_CV)
    if h_C is None:
        d_CV.mul_(-g_C[:, None])
    else:
        d_CV.mul_(log_p_CV.add_(entropy_C[:, None]).mul_(-h_C[:, None]).sub_(g_C[:, None]))
    if logits_CV.shape[1]:
        columns_C, elsewhere_C = _columns(targets_C, first_column, logits_CV.shape[1])
        d_CV.scatter_add_(1, columns_C[:, None], g_C.masked_fill(elsewhere_C, 0.0)[:, None])
    return d_CV.mul_(1 / temperature).masked_fill_((targets_C < 0)[:, None], 0.0)


def _scaled_distance(logits_CV: Tensor, max_C: Tensor, temperature: float, out_CV: Tensor) -> Tensor:
    """`out_CV`, of the dtype of `max_C`, filled with (x - max) / T or LOG_ZERO, whichever is more."""
    return torch.sub(logits_CV, max_C[:, None], out=out_CV).mul_(1 / temperature).clamp_(min=LOG_ZERO)


def _columns(targets_C: Tensor, first_column: int, num_columns: int) -> tuple[Tensor, Tensor]:
    """Each target's column in this shard, 0 where another shard has it, and bool: whether another has."""
    columns_C = targets_C - first_column
    elsewhere_C = (columns_C < 0) | (columns_C >= num_columns)
    return columns_C.masked_fill(elsewhere_C, 0), elsewhere_C
