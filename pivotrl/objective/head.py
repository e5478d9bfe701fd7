"""Log-probs and entropies from hidden states: the output projection and `objective.vocab` in one, a chunk at a time.

Legend: N tokens, C tokens of a chunk, H hidden size, V rows of the weight on this rank (columns of its logits).

The logits of a chunk are made, read once and overwritten by those of the next; the ranks merge what they know of all
tokens in one all-gather at the end. The backward pass makes the logits of each chunk again, turns them into their own
gradient in place, and multiplies that with the weight and with the hidden states. Only the last chunk's logits are
still there and need no second product; so 2 N V H multiplications are repeated, less a chunk, and not N V numbers kept.
"""

import torch
import torch.distributed as dist
from torch import Tensor
from torch.autograd.function import once_differentiable

from pivotrl.objective import rows
from pivotrl.objective.vocab import check_kinds, merge, passes_for, shard_of

CHUNK_BYTES = 64_000_000
"""Logits alive at a time: at 18,992 columns of bfloat16 (Qwen3's vocabulary over 8 ranks) those of 1,684 tokens.
Smaller chunks would read the weight, and read and write its float32 gradient, more often."""


def head_logprob(
    hidden_NH: Tensor,
    weight_VH: Tensor,
    targets_N: Tensor,
    tp_group: dist.ProcessGroup | None = None,
    temperature: float = 1.0,
    vocabulary: int | None = None,
    weight_grad_VH: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """`vocab.vocab_parallel_logprob` of the logits hidden_NH @ weight_VH.T, with at most CHUNK_BYTES of them alive.

    Differentiable once, in both outputs, as often as wanted. The gradient of `hidden_NH` is this rank's part: its sum
    over `tp_group` is the caller's to take. That of the weight is summed over tokens in float32.

    Args:
        hidden_NH: the same on every rank of `tp_group`, finite also in ignored rows.
        weight_VH: this rank's rows [rank V, rank V + V) of the output projection, of the same dtype.
        targets_N, tp_group, temperature, vocabulary: as in `vocab.vocab_parallel_logprob`.
        weight_grad_VH: where given, the backward pass adds the weight's gradient to it, and autograd gets none.
            float32, or float64 for a float64 weight.

    Returns:
        (logp_N, entropy_N) in nats, float64 for float64 weights, else float32.

    Raises:
        ValueError: as in `vocab.vocab_parallel_logprob`; or shapes or dtypes do not fit each other.
    """
    fits = hidden_NH.ndim == weight_VH.ndim == 2 and hidden_NH.shape[1] == weight_VH.shape[1]
    if not fits or targets_N.shape != hidden_NH.shape[:1]:
        raise ValueError(
            "hidden states must be [N, H], the weight [V, H] and targets [N], "
            f"got {list(hidden_NH.shape)}, {list(weight_VH.shape)} and {list(targets_N.shape)}"
        )
    check_kinds("weight_VH", weight_VH, targets_N)
    if hidden_NH.dtype != weight_VH.dtype or hidden_NH.device != weight_VH.device:
        raise ValueError(
            f"hidden states must be {weight_VH.dtype} on {weight_VH.device} as the weight is, "
            f"got {hidden_NH.dtype} on {hidden_NH.device}"
        )
    wide = wide_dtype(weight_VH)
    if weight_grad_VH is not None and (weight_grad_VH.shape != weight_VH.shape or weight_grad_VH.dtype != wide):
        raise ValueError(
            f"weight_grad_VH must be {wide} {list(weight_VH.shape)}, "
            f"got {weight_grad_VH.dtype} {list(weight_grad_VH.shape)}"
        )
    shard = shard_of(len(weight_VH), targets_N, tp_group, temperature, vocabulary)
    return _HeadLogprob.apply(hidden_NH, weight_VH, targets_N, tp_group, temperature, shard, weight_grad_VH)


def wide_dtype(tensor: Tensor) -> torch.dtype:
    """The dtype of sums over tokens or columns: float64 for float64, else float32."""
    return torch.float64 if tensor.dtype == torch.float64 else torch.float32


class _HeadLogprob(torch.autograd.Function):
    @staticmethod
    def forward(ctx, hidden_NH, weight_VH, targets_N, tp_group, temperature, shard, weight_grad_VH):
        ctx.chunks = _chunks(len(hidden_NH), len(weight_VH) * weight_VH.element_size())
        stats_4N = hidden_NH.new_empty(4, len(hidden_NH), dtype=wide_dtype(weight_VH))
        buffer_CV = _buffer(ctx.chunks, weight_VH)
        for chunk in ctx.chunks:
            logits_CV = _logits(hidden_NH[chunk], weight_VH, buffer_CV)
            stats_4N[:, chunk] = passes_for(logits_CV).shard_stats(logits_CV, targets_N[chunk], *shard, temperature)
        *known, logp_N = merge(stats_4N, targets_N, tp_group, temperature)
        ctx.save_for_backward(hidden_NH, weight_VH, targets_N, *known)
        ctx.placement = (*shard, temperature)
        ctx.weight_grad_VH = weight_grad_VH
        ctx.last_logits_CV = buffer_CV
        ctx.set_materialize_grads(False)
        return logp_N, known[-1]

    @staticmethod
    @once_differentiable
    def backward(ctx, g_N, h_N):
        hidden_NH, weight_VH, *per_token = ctx.saved_tensors
        per_token += [torch.zeros_like(per_token[-1]) if g_N is None else g_N, h_N]
        d_hidden_NH = d_weight_VH = None
        if ctx.needs_input_grad[0]:  # contiguous, which Megatron's reduction over tensor-parallel ranks relies on
            d_hidden_NH = torch.empty_like(hidden_NH, memory_format=torch.contiguous_format)
        if ctx.needs_input_grad[1]:
            d_weight_VH = ctx.weight_grad_VH
            if d_weight_VH is None:
                d_weight_VH = torch.zeros_like(weight_VH, dtype=wide_dtype(weight_VH))
        buffer_CV, ctx.last_logits_CV = ctx.last_logits_CV, None
        made = buffer_CV is not None
        buffer_CV = buffer_CV if made else _buffer(ctx.chunks, weight_VH)
        for chunk in reversed(ctx.chunks):
            hidden_CH = hidden_NH[chunk]
            logits_CV = buffer_CV[: len(hidden_CH)] if made else _logits(hidden_CH, weight_VH, buffer_CV)
            made = False
            of_chunk = (None if x_N is None else x_N[chunk] for x_N in per_token)
            passes_for(logits_CV).write_d_logits(logits_CV, logits_CV, *of_chunk, *ctx.placement)
            if d_hidden_NH is not None:
                torch.mm(logits_CV, weight_VH, out=d_hidden_NH[chunk])
            if d_weight_VH is not None:
                _add_product(d_weight_VH, logits_CV, hidden_CH)
        if d_weight_VH is not None:
            d_weight_VH = d_weight_VH.to(weight_VH.dtype) if ctx.weight_grad_VH is None else None
        return d_hidden_NH, d_weight_VH, None, None, None, None, None


def _chunks(num_rows: int, row_bytes: int) -> list[slice]:
    """Stretches of rows, as few as CHUNK_BYTES allows and about equally long; none where there are no rows."""
    count = -(-num_rows // max(1, CHUNK_BYTES // row_bytes))
    return [slice(num_rows * i // count, num_rows * (i + 1) // count) for i in range(count)]


def _buffer(chunks: list[slice], weight_VH: Tensor) -> Tensor:
    """Memory for the logits of any of the chunks."""
    return weight_VH.new_empty(max((chunk.stop - chunk.start for chunk in chunks), default=0), len(weight_VH))


def _logits(hidden_CH: Tensor, weight_VH: Tensor, buffer_CV: Tensor) -> Tensor:
    return torch.mm(hidden_CH, weight_VH.t(), out=buffer_CV[: len(hidden_CH)])


def _add_product(total_VH: Tensor, d_logits_CV: Tensor, hidden_CH: Tensor) -> None:
    """Add d_logits_CV.T @ hidden_CH in the precision of `total_VH`, which may be above theirs."""
    dtype = total_VH.dtype
    if d_logits_CV.dtype == dtype:
        total_VH.addmm_(d_logits_CV.t(), hidden_CH)
    elif d_logits_CV.is_cuda:
        torch.addmm(total_VH, d_logits_CV.t(), hidden_CH, out_dtype=dtype, out=total_VH)
    else:  # torch has no such product on a CPU: convert, some columns at a time
        columns = max(1, rows.CHUNK_ELEMENTS // len(d_logits_CV))
        hidden_CH = hidden_CH.to(dtype)
        for total_BH, d_logits_CB in zip(total_VH.split(columns), d_logits_CV.split(columns, dim=1), strict=True):
            total_BH.addmm_(d_logits_CB.to(dtype).t(), hidden_CH)
