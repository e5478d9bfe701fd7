"""One read and one write of the logits: their gradient, in place where the caller wants it.

Legend: N rows, V columns of this rank's shard.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from pivotrl.objective.kernels.launch import check_rows, launch_for

LOG2_E = tl.constexpr(1.4426950408889634)
LOG_ZERO = tl.constexpr(-1000.0)


@triton.jit
def dlogits_kernel(
    logits_ptr,
    row_stride,
    out_ptr,
    out_stride,
    targets_ptr,
    maximum_ptr,
    log_sum_ptr,
    entropy_ptr,
    g_ptr,
    h_ptr,
    first_column,
    num_valid,
    num_columns,
    inverse_temperature,
    WITH_ENTROPY: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """out = (1/T) [g (1[j = y] - p) - h p (log p + H)]; zeros in padded columns and in ignored rows (y < 0)."""
    row = tl.program_id(0).to(tl.int64)
    target = tl.load(targets_ptr + row)
    maximum = tl.load(maximum_ptr + row)
    log_sum = tl.load(log_sum_ptr + row)
    g = tl.load(g_ptr + row) * inverse_temperature
    if WITH_ENTROPY:
        entropy = tl.load(entropy_ptr + row)
        h = tl.load(h_ptr + row) * inverse_temperature
    read = tl.where(target >= 0, num_valid, 0)
    logits_ptr += row * row_stride
    out_ptr += row * out_stride
    for start in range(0, num_columns, BLOCK):
        columns = start + tl.arange(0, BLOCK)
        valid = columns < read
        x = tl.load(logits_ptr + columns, mask=valid, other=-float("inf")).to(tl.float32)
        log_p = tl.maximum((x - maximum) * inverse_temperature, LOG_ZERO) - log_sum
        p = tl.exp2(log_p * LOG2_E)
        # The target is found by comparing columns, not by another load, so that writing in place needs no barrier.
        gradient = g * (tl.where(columns == target - first_column, 1.0, 0.0) - p)
        if WITH_ENTROPY:
            gradient -= h * p * (log_p + entropy)
        gradient = tl.where(valid, gradient, 0.0)
        tl.store(out_ptr + columns, gradient.to(out_ptr.dtype.element_ty), mask=columns < num_columns)


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
    """Fill `out_NV`, which may be `logits_NV` itself, with the gradient of the logits.

    Args:
        logits_NV: as in `stats.shard_stats`; read once.
        maximum_N, log_sum_N, entropy_N: float32, merged over the ranks.
        g_N, h_N: float32 gradients of the log-probs and entropies, any stride. h None: entropy has no gradient.
    """
    check_rows(logits_NV)
    check_rows(out_NV)
    num_rows, num_columns = logits_NV.shape
    if not num_rows:
        return
    launch = launch_for(logits_NV.element_size(), num_columns)
    with torch.cuda.device_of(logits_NV):  # Triton launches on the current device
        dlogits_kernel[(num_rows,)](
            logits_NV,
            logits_NV.stride(0),
            out_NV,
            out_NV.stride(0),
            targets_N.contiguous(),
            maximum_N.contiguous(),
            log_sum_N.contiguous(),
            entropy_N.contiguous(),
            g_N.contiguous(),
            g_N if h_N is None else h_N.contiguous(),
            first_column,
            num_valid,
            num_columns,
            1 / temperature,
            WITH_ENTROPY=h_N is not None,
            BLOCK=launch.block,
            num_warps=launch.num_warps,
        )
