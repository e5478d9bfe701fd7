"""How the row kernels are launched: one program a row, which walks the row's columns in blocks."""

from typing import NamedTuple

from torch import Tensor

BYTES_IN_FLIGHT = 16384
"""Of logits, per block of a program: 8,192 columns of bfloat16. With it no kernel spills on sm_80 to sm_100
(`python tools/bench_kernels.py --compile-only`)."""
SMALLEST_BLOCK = 256


class Launch(NamedTuple):
    block: int
    """Columns of a block: a power of two."""
    num_warps: int


def launch_for(element_size: int, num_columns: int) -> Launch:
    """The launch for rows of `num_columns` elements of `element_size` bytes."""
    largest = BYTES_IN_FLIGHT // element_size
    block = max(SMALLEST_BLOCK, min(largest, 1 << max(num_columns - 1, 0).bit_length()))
    return Launch(block, max(1, min(8, block // 512)))


def check_rows(logits_NV: Tensor) -> None:
    """Raise ValueError for logits whose columns are not adjacent in memory."""
    if logits_NV.ndim != 2 or (logits_NV.shape[1] > 1 and logits_NV.stride(1) != 1):
        raise ValueError(
            f"logits must be [N, V] with adjacent columns (stride 1), got {list(logits_NV.shape)} with strides "
            f"{list(logits_NV.stride())}: pass logits.contiguous()"
        )
