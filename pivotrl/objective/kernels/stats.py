"""One read of the logits: what every rank knows of a row.

Legend: N rows, V columns of this rank's shard, m = max x, d = (x - m) / T.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from pivotrl.objective.kernels.launch import check_rows, launch_for

LOG2_E = 1.4426950408889634
LN_2 = tl.constexpr(0.6931471805599453)
LOG2_ZERO = tl.constexpr(-1000.0)
"""2 to this is exactly 0 in float32; it stands in for -inf, whose product with a probability of 0 would be NaN."""


@triton.jit
def stats_kernel(
    logits_ptr, row_stride, targets_ptr, stats_ptr, num_rows, first_column, num_valid, log2_scale, BLOCK: tl.constexpr
):
    """stats[:, row] = m, sum e^d, sum e^d d, logit of the target (0 where another shard has it).

    A row whose target is negative is ignored, and not read.
    """
    row = tl.program_id(0).to(tl.int64)
    target = tl.load(targets_ptr + row)
    maximum = -float("inf")
    total = 0.0
    weighted = 0.0
    logits_ptr += row * row_stride
    if target < 0:
        maximum = 0.0
        total = 1.0
    else:
        for start in range(0, num_valid, BLOCK):
            columns = start + tl.arange(0, BLOCK)
            x = tl.load(logits_ptr + columns, mask=columns < num_valid, other=-float("inf")).to(tl.float32)
            new_maximum = tl.maximum(maximum, tl.max(x, 0))
            centre = tl.where(new_maximum == -float("inf"), 0.0, new_maximum)
            # NaN passes into the sum, and so into the log-prob; a maximum would otherwise take it for -inf.
            distance = tl.maximum((x - centre) * log2_scale, LOG2_ZERO, propagate_nan=tl.PropagateNan.ALL)
            exponential = tl.exp2(distance)
            shift = tl.maximum((maximum - centre) * log2_scale, LOG2_ZERO)
            scale = tl.exp2(shift)
            weighted = scale * (weighted + total * shift) + tl.sum(exponential * distance, 0)
            total = scale * total + tl.sum(exponential, 0)
            maximum = new_maximum
    column = target - first_column
    here = (column >= 0) & (column < num_valid) & (target >= 0)
    target_logit = tl.load(logits_ptr + tl.where(here, column, 0), mask=here, other=0.0).to(tl.float32)
    tl.store(stats_ptr + row, maximum)
    tl.store(stats_ptr + num_rows + row, total)
    tl.store(stats_ptr + 2 * num_rows + row, weighted * LN_2)
    tl.store(stats_ptr + 3 * num_rows + row, target_logit)


def shard_stats(logits_NV: Tensor, targets_N: Tensor, first_column: int, num_valid: int, temperature: float) -> Tensor:
    """float32 [4, N]: m, sum e^d, sum e^d d and the target's logit, over the first `num_valid` columns.

    Args:
        logits_NV: float32, bfloat16 or float16, any row stride; read once.
        targets_N: int64 ids in the whole vocabulary; negative: the row is ignored.
        first_column: id of this shard's first column.
    """
    check_rows(logits_NV)
    num_rows = len(logits_NV)
    stats_4N = torch.empty(4, num_rows, dtype=torch.float32, device=logits_NV.device)
    if num_rows:
        launch = launch_for(logits_NV.element_size(), num_valid)
        with torch.cuda.device_of(logits_NV):  # Triton launches on the current device
            stats_kernel[(num_rows,)](
                logits_NV,
                logits_NV.stride(0),
                targets_N.contiguous(),
                stats_4N,
                num_rows,
                first_column,
                num_valid,
                LOG2_E / temperature,
                BLOCK=launch.block,
                num_warps=launch.num_warps,
            )
    return stats_4N
