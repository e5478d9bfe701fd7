"""Attention over rows of trees `[P][R1]..[RG]`: a response sees its prompt and itself, and no other response.

Two calls of flash attention make it. Call A is causal inside every segment, which is a prompt or a response. Call B has
all responses of a tree as queries and its whole prompt as keys, unmasked. Each gives a softmax over its own keys and
the log of its normaliser (`lse`); for a response token, which has keys in both, the two merge exactly:

    lse = log(exp(lse_A) + exp(lse_B)),   out = exp(lse_A - lse) out_A + exp(lse_B - lse) out_B

`lse` is no differentiable output of the kernels, so autograd through the merge would be wrong without an error. The
backward pass is written out: flash attention's needs of its forward only `out` and `lse`, to make the probabilities
exp(score - lse) and their gradient p (dp - sum(d_out out)) again. Given the merged pair, each call makes the true
probabilities of its own keys, and the gradients of the two add up (as in ring attention, arXiv 2310.01889).

Legend: T tokens of the row, H query heads of this rank, K key-value heads (each serves H / K query heads), D head size.
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from pivotrl.policy import flash


class Tree(NamedTuple):
    """A prompt and its responses, end to end in the row. A tree without responses is one causal sequence."""

    start: int
    """Where the prompt begins in the row."""
    prompt: int
    """Its length, at least 1."""
    responses: tuple[int, ...]
    """Their lengths, behind the prompt in this order."""

    @property
    def end(self) -> int:
        return self.start + self.prompt + sum(self.responses)


class Span(NamedTuple):
    start: int
    end: int


class Layout:
    """Which tokens of a row see which, as the two calls take it. The trees cover the row without a gap."""

    def __init__(self, trees: Sequence[Tree], device: torch.device) -> None:
        """Find the calls' spans; on a GPU put their bounds there, once for all layers."""
        self.trees = tuple(trees)
        self.segments: list[Span] = []
        """Call A: causal sequences, end to end from 0 to T. A lone response is one sequence with its prompt."""
        self.crossings: list[tuple[Span, Span]] = []
        """Call B: (responses of a tree, its prompt)."""
        for tree in self.trees:
            assert tree.start == (self.segments[-1].end if self.segments else 0), "the trees leave a gap"
            lengths = [length for length in tree.responses if length]
            if len(lengths) < 2:
                self.segments.append(Span(tree.start, tree.end))
                continue
            prompt = Span(tree.start, tree.start + tree.prompt)
            self.segments.append(prompt)
            for length in lengths:
                self.segments.append(Span(self.segments[-1].end, self.segments[-1].end + length))
            self.crossings.append((Span(prompt.end, tree.end), prompt))
        self.packed = flash.PackedCalls(self.segments, self.crossings, device) if device.type == "cuda" else None


def attend(query_THD: Tensor, key_TKD: Tensor, value_TKD: Tensor, layout: Layout, scale: float) -> Tensor:
    """Attention of every token over those that it may see: [T, H, D], differentiable once.

    Args:
        query_THD, key_TKD, value_TKD: float32, float64 or bfloat16 on a CPU, bfloat16 or float16 on a GPU.
        layout: of a row of T tokens, made for this device.
        scale: factor of the scores before the softmax.

    Raises:
        ValueError: a dtype that the GPU's kernel does not have.
    """
    return _TwoCalls.apply(query_THD, key_TKD, value_TKD, layout, scale)


def visible(trees: Sequence[Tree], device: torch.device) -> Tensor:
    """The mask that defines it, bool [T, T]: query t (row) sees key s (column)."""
    tree_T, part_T = [], []
    for number, tree in enumerate(trees):
        for part, length in enumerate((tree.prompt, *tree.responses)):
            tree_T += [number] * length
            part_T += [part] * length
    tree_T, part_T = torch.tensor(tree_T, device=device), torch.tensor(part_T, device=device)
    same_tree_TT = tree_T[:, None] == tree_T
    prompt_or_own_TT = (part_T == 0) | (part_T[:, None] == part_T)
    return (same_tree_TT & prompt_or_own_TT).tril()


def attend_by_definition(
    query_THD: Tensor, key_TKD: Tensor, value_TKD: Tensor, trees: Sequence[Tree], scale: float
) -> Tensor:
    """`attend` in plain PyTorch, with all T * T scores at once: [T, H, D]."""
    share = query_THD.shape[1] // key_TKD.shape[1]
    key_THD, value_THD = (x.repeat_interleave(share, dim=1) for x in (key_TKD, value_TKD))
    scores_HTT = scale * torch.einsum("thd,shd->hts", query_THD, key_THD)
    scores_HTT = scores_HTT.masked_fill(~visible(trees, query_THD.device), float("-inf"))
    return torch.einsum("hts,shd->thd", scores_HTT.softmax(-1), value_THD)


class _TwoCalls(torch.autograd.Function):
    @staticmethod
    def forward(ctx, query_THD, key_TKD, value_TKD, layout, scale):
        run = _on_gpu if layout.packed else _on_cpu
        out_THD, lse_HT = run(query_THD, key_TKD, value_TKD, layout, scale)
        ctx.save_for_backward(query_THD, key_TKD, value_TKD, out_THD, lse_HT)
        ctx.layout, ctx.scale = layout, scale
        return out_THD

    @staticmethod
    @once_differentiable
    def backward(ctx, d_out_THD):
        run = _backward_on_gpu if ctx.layout.packed else _backward_on_cpu
        d_qkv = run(d_out_THD.contiguous(), *ctx.saved_tensors, ctx.layout, ctx.scale)
        return *d_qkv, None, None


def merge(out_A: Tensor, lse_A: Tensor, out_B: Tensor, lse_B: Tensor) -> tuple[Tensor, Tensor]:
    """One softmax over two disjoint sets of keys, from the softmax over each: outs [t, H, D], lses [H, t]."""
    lse_Ht = torch.logaddexp(lse_A, lse_B)
    weights_A, weights_B = ((lse - lse_Ht).exp().t()[..., None] for lse in (lse_A, lse_B))
    return (weights_A * out_A + weights_B * out_B).to(out_A.dtype), lse_Ht


def _on_cpu(query_THD: Tensor, key_TKD: Tensor, value_TKD: Tensor, layout: Layout, scale: float):
    out_THD, lse_HT = torch.empty_like(query_THD), flash.empty_lse(query_THD)
    for s, e in layout.segments:
        out_THD[s:e], lse_HT[:, s:e] = flash.cpu(query_THD[s:e], key_TKD[s:e], value_TKD[s:e], True, scale)
    for (s, e), (ps, pe) in layout.crossings:
        across = flash.cpu(query_THD[s:e], key_TKD[ps:pe], value_TKD[ps:pe], False, scale)
        out_THD[s:e], lse_HT[:, s:e] = merge(out_THD[s:e], lse_HT[:, s:e], *across)
    return out_THD, lse_HT


def _backward_on_cpu(d_out_THD, query_THD, key_TKD, value_TKD, out_THD, lse_HT, layout: Layout, scale: float):
    d_query_THD, d_key_TKD, d_value_TKD = (torch.empty_like(x) for x in (query_THD, key_TKD, value_TKD))

    def call(queries: Span, keys: Span, causal: bool) -> tuple[Tensor, Tensor, Tensor]:
        (s, e), (ks, ke) = queries, keys
        forward = (query_THD[s:e], key_TKD[ks:ke], value_TKD[ks:ke], out_THD[s:e], lse_HT[:, s:e])
        return flash.cpu_backward(d_out_THD[s:e], *forward, causal, scale)

    for span in layout.segments:
        s, e = span
        d_query_THD[s:e], d_key_TKD[s:e], d_value_TKD[s:e] = call(span, span, True)
    for responses, prompt in layout.crossings:
        d_query, d_key, d_value = call(responses, prompt, False)
        d_query_THD[responses.start : responses.end] += d_query
        d_key_TKD[prompt.start : prompt.end] += d_key
        d_value_TKD[prompt.start : prompt.end] += d_value
    return d_query_THD, d_key_TKD, d_value_TKD


def _on_gpu(query_THD: Tensor, key_TKD: Tensor, value_TKD: Tensor, layout: Layout, scale: float):
    packed = layout.packed
    out_THD, lse_HT = flash.gpu(query_THD, key_TKD, value_TKD, packed.inside, True, scale)
    if packed.across is not None:
        q, k = packed.responses, packed.prompts
        across = flash.gpu(query_THD[q], key_TKD[k], value_TKD[k], packed.across, False, scale)
        out_THD[q], lse_HT[:, q] = merge(out_THD[q], lse_HT[:, q], *across)
    return out_THD, lse_HT


def _backward_on_gpu(d_out_THD, query_THD, key_TKD, value_TKD, out_THD, lse_HT, layout: Layout, scale: float):
    packed = layout.packed
    forward = (query_THD, key_TKD, value_TKD, out_THD, lse_HT)
    d_qkv = flash.gpu_backward(d_out_THD, *forward, packed.inside, True, scale)
    if packed.across is not None:
        q, k = packed.responses, packed.prompts
        forward = (query_THD[q], key_TKD[k], value_TKD[k], out_THD[q], lse_HT[:, q])
        across = flash.gpu_backward(d_out_THD[q], *forward, packed.across, False, scale)
        # no row is named twice, so these sums are the same in every run
        for total, rows, part in zip(d_qkv, (q, k, k), across, strict=True):
            total[rows] += part
    return d_qkv
