"""Rows of a matrix by index, some of them several times, with a gradient that is the same in every run.

Legend: U rows there are, N rows wanted, H width.
"""

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable


def repeat_rows(rows_UH: Tensor, place_N: Tensor) -> Tensor:
    """rows_UH[place_N], [N, H]; the gradients of a row that is there several times are summed in float32 at least."""
    return _Repeat.apply(rows_UH, place_N)


class _Repeat(torch.autograd.Function):
    @staticmethod
    def forward(ctx, rows_UH, place_N):
        ctx.save_for_backward(place_N)
        ctx.count = len(rows_UH)
        return rows_UH.index_select(0, place_N)

    @staticmethod
    @once_differentiable
    def backward(ctx, d_NH):
        (place_N,) = ctx.saved_tensors
        wide_NH = d_NH.to(torch.float64 if d_NH.dtype == torch.float64 else torch.float32)
        total_UH = wide_NH.new_zeros(ctx.count, d_NH.shape[1])
        if d_NH.is_cuda:  # sorts the places first; index_add_ would add with atomics, in any order
            total_UH.index_put_((place_N,), wide_NH, accumulate=True)
        else:
            total_UH.index_add_(0, place_N, wide_NH)
        return total_UH.to(d_NH.dtype), None
