"""Torch's own flash-attention kernels with their log-sum-exp, which its public functions keep to themselves.

On a CPU one call is one sequence; on a GPU one call is a row of sequences of many lengths. Both take fewer key-value
heads than query heads without copies of them.

Legend: t queries, s keys, H query heads, K key-value heads, D head size. lse [H, t] is the log of the softmax's
normaliser, float64 for float64 inputs, else float32.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

_aten = torch.ops.aten


def empty_lse(query_tHD: Tensor) -> Tensor:
    """Memory for the lse of these queries: [H, t]."""
    dtype = torch.float64 if query_tHD.dtype == torch.float64 else torch.float32
    return query_tHD.new_empty(query_tHD.shape[1], query_tHD.shape[0], dtype=dtype)


def cpu(query_tHD: Tensor, key_sKD: Tensor, value_sKD: Tensor, causal: bool, scale: float) -> tuple[Tensor, Tensor]:
    """Attention of one sequence: out [t, H, D] and lse [H, t]."""
    out, lse = _aten._scaled_dot_product_flash_attention_for_cpu(
        *(_heads_first(x) for x in (query_tHD, key_sKD, value_sKD)), 0.0, causal, scale=scale
    )
    return out[0].transpose(0, 1), lse[0]


def cpu_backward(
    d_out_tHD: Tensor,
    query_tHD: Tensor,
    key_sKD: Tensor,
    value_sKD: Tensor,
    out_tHD: Tensor,
    lse_Ht: Tensor,
    causal: bool,
    scale: float,
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of query [t, H, D], key and value [s, K, D], of the part that these keys have in `out`."""
    lse_Ht = lse_Ht.t().contiguous().t()  # heads innermost, as the forward kernel writes and the backward one reads it
    grads = _aten._scaled_dot_product_flash_attention_for_cpu_backward(
        *(_heads_first(x) for x in (d_out_tHD, query_tHD, key_sKD, value_sKD, out_tHD)),
        lse_Ht[None],
        0.0,
        causal,
        scale=scale,
    )
    return tuple(grad[0].transpose(0, 1) for grad in grads)


def _heads_first(x_tHD: Tensor) -> Tensor:
    """A view [1, H, t, D]."""
    return x_tHD.transpose(0, 1)[None]


@dataclass(frozen=True, slots=True)
class Bounds:
    """Where the sequences of a row begin: int32 [sequences + 1] on the GPU, of queries and of keys."""

    queries: Tensor
    keys: Tensor
    most_queries: int
    """Length of the longest sequence of queries."""
    most_keys: int

    @classmethod
    def of(cls, queries: Sequence[int], keys: Sequence[int], device: torch.device) -> "Bounds":
        """From the lengths of the sequences."""
        starts = (torch.tensor([0, *lengths]).cumsum(0).to(device, torch.int32) for lengths in (queries, keys))
        return cls(*starts, max(queries), max(keys))


class PackedCalls:
    """Both calls of `tree_attention` for a whole row, with their bounds and rows on the GPU."""

    def __init__(
        self,
        segments: Sequence[tuple[int, int]],
        crossings: Sequence[tuple[tuple[int, int], tuple[int, int]]],
        device: torch.device,
    ) -> None:
        lengths = [end - start for start, end in segments]
        self.inside = Bounds.of(lengths, lengths, device)
        self.across: Bounds | None = None
        self.responses = self.prompts = torch.zeros(0, dtype=torch.int64, device=device)
        if crossings:
            queries, keys = zip(*crossings, strict=True)
            self.across = Bounds.of([e - s for s, e in queries], [e - s for s, e in keys], device)
            self.responses, self.prompts = (
                torch.cat([torch.arange(start, end) for start, end in spans]).to(device) for spans in (queries, keys)
            )


def gpu(
    query_tHD: Tensor, key_sKD: Tensor, value_sKD: Tensor, bounds: Bounds, causal: bool, scale: float
) -> tuple[Tensor, Tensor]:
    """Attention of every sequence of a row: out [t, H, D] and lse [H, t], float32.

    Raises:
        ValueError: a dtype that the kernel does not have.
    """
    if query_tHD.dtype not in (torch.bfloat16, torch.float16):
        raise ValueError(
            f"training.packing prompt_once on a GPU needs model.dtype bfloat16, found {query_tHD.dtype}: "
            "set model.dtype: bfloat16, or training.packing: plain"
        )
    out, lse, *_ = _aten._flash_attention_forward(
        *(x.contiguous() for x in (query_tHD, key_sKD, value_sKD)),
        bounds.queries,
        bounds.keys,
        bounds.most_queries,
        bounds.most_keys,
        0.0,
        causal,
        return_debug_mask=False,
        scale=scale,
    )
    return out, lse


def gpu_backward(
    d_out_tHD: Tensor,
    query_tHD: Tensor,
    key_sKD: Tensor,
    value_sKD: Tensor,
    out_tHD: Tensor,
    lse_Ht: Tensor,
    bounds: Bounds,
    causal: bool,
    scale: float,
) -> tuple[Tensor, Tensor, Tensor]:
    """As `cpu_backward`, for every sequence of a row."""
    device = query_tHD.device
    return _aten._flash_attention_backward(
        *(x.contiguous() for x in (d_out_tHD, query_tHD, key_sKD, value_sKD, out_tHD, lse_Ht)),
        bounds.queries,
        bounds.keys,
        bounds.most_queries,
        bounds.most_keys,
        0.0,
        causal,
        torch.zeros(2, dtype=torch.uint64, device=device),  # the dropout's generator state, which none reads
        torch.empty(0, device=device),
        scale=scale,
    )
