"""The two calls of attention against the definition with all scores: values and gradients, and what breaks them."""

from itertools import pairwise

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from pivotrl.policy import flash, tree_attention
from pivotrl.policy.tree_attention import Layout, Span, Tree, attend, attend_by_definition, visible
from tests.policy.tree_cases import SCALE, inputs, largest_error, trees_of, values_and_gradients

CPU = torch.device("cpu")
RAGGED = [(23, (7, 7, 0, 12, 12)), (9, (6,)), (1, (3, 4, 4)), (3, (0, 2)), (5, (0, 0)), (4, ())]
"""(prompt, responses): also one response alone, prompts of one token, no response at all, and padding at the end."""
SHAPES = st.lists(
    st.tuples(st.integers(1, 12), st.lists(st.integers(0, 9), max_size=4).map(tuple)), min_size=1, max_size=4
)


def compare(trees: list[Tree], heads: int, kv_heads: int, dtype: torch.dtype, layout: Layout | None = None) -> float:
    qkv = inputs(trees, heads, kv_heads, 8, dtype)
    layout = layout or Layout(trees, CPU)
    found = values_and_gradients(lambda *x: attend(*x, layout, SCALE), qkv)
    assert all(x.dtype == dtype for x in found)
    wide = [x.double() for x in qkv]
    expected = values_and_gradients(lambda *x: attend_by_definition(*x, trees, SCALE), wide)
    return largest_error(found, expected)


@pytest.mark.parametrize(
    ("dtype", "tolerance"), [(torch.float64, 1e-14), (torch.float32, 1e-6), (torch.bfloat16, 1e-2)], ids=str
)
@pytest.mark.parametrize(("heads", "kv_heads"), [(6, 2), (4, 4), (3, 1)])
def test_equals_the_definition(dtype: torch.dtype, tolerance: float, heads: int, kv_heads: int) -> None:
    assert compare(trees_of(RAGGED), heads, kv_heads, dtype) < tolerance


@settings(deadline=None, max_examples=50)
@given(SHAPES)
def test_equals_the_definition_on_any_trees(shapes: list) -> None:
    assert compare(trees_of(shapes), 4, 2, torch.float64) < 1e-13


def test_the_definition_is_a_row_for_each_response() -> None:
    """What a token sees in the tree is what it would see in its sample's own row."""
    trees = trees_of(RAGGED)
    query, key, value = inputs(trees, 4, 2, 8, torch.float64)
    out = attend_by_definition(query, key, value, trees, SCALE)
    for tree in trees:
        start = tree.start + tree.prompt
        for length in tree.responses or (0,):
            rows = torch.cat([torch.arange(tree.start, tree.start + tree.prompt), torch.arange(start, start + length)])
            alone = [Tree(0, len(rows), ())]
            own = attend_by_definition(query[rows], key[rows], value[rows], alone, SCALE)
            torch.testing.assert_close(own, out[rows], rtol=1e-12, atol=1e-12)
            start += length


def test_flex_attention_sees_the_same() -> None:
    """FlexAttention with a mask function of its own, forward only: on a CPU it has no backward pass."""
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    trees = trees_of(RAGGED)
    tree_T = torch.cat([torch.full((tree.end - tree.start,), n) for n, tree in enumerate(trees)])
    part_T = torch.cat([torch.full((length,), n) for tree in trees for n, length in enumerate((tree[1], *tree[2]))])

    def sees(batch: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
        own = (part_T[key] == 0) | (part_T[query] == part_T[key])
        return (tree_T[query] == tree_T[key]) & own & (query >= key)

    qkv = inputs(trees, 4, 2, 16, torch.float32)
    mask = create_block_mask(sees, None, None, len(tree_T), len(tree_T), device="cpu")
    theirs = flex_attention(*(x.transpose(0, 1)[None] for x in qkv), block_mask=mask, scale=SCALE, enable_gqa=True)
    ours = attend(*qkv, Layout(trees, CPU), SCALE)
    torch.testing.assert_close(ours, theirs[0].transpose(0, 1), rtol=1e-5, atol=1e-5)


def test_padding_and_unused_memory_reach_nothing() -> None:
    """What the last tree holds, NaN included, is in no other tree's values or gradients."""
    trees = trees_of(RAGGED)
    real = trees[-1].start
    qkv = inputs(trees, 4, 2, 8, torch.float64)
    clean = values_and_gradients(lambda *x: attend(*x, Layout(trees, CPU), SCALE), qkv)
    for x in qkv:
        x[real:] = torch.nan
    poisoned = values_and_gradients(lambda *x: attend(*x, Layout(trees, CPU), SCALE), qkv)
    assert all(torch.equal(a[:real], b[:real]) for a, b in zip(clean, poisoned, strict=True))


def test_a_leak_or_a_hidden_key_is_far_off() -> None:
    trees = trees_of(RAGGED)
    right = compare(trees, 4, 2, torch.float64)
    leaking = Layout([Tree(0, trees[-1].end, ())], CPU)
    hiding = Layout(trees, CPU)
    queries, (start, end) = hiding.crossings[0]
    hiding.crossings[0] = (queries, Span(start + 1, end))
    for wrong in (leaking, hiding):
        assert compare(trees, 4, 2, torch.float64, wrong) > 1e10 * right


def test_the_backward_pass_needs_the_merged_lse(monkeypatch: pytest.MonkeyPatch) -> None:
    """With each call's own normaliser the values stay right and the gradients do not."""
    trees = trees_of(RAGGED)
    qkv = inputs(trees, 4, 2, 8, torch.float64)
    right = values_and_gradients(lambda *x: attend(*x, Layout(trees, CPU), SCALE), qkv)
    merge = tree_attention.merge
    monkeypatch.setattr(tree_attention, "merge", lambda a, lse_a, b, lse_b: (merge(a, lse_a, b, lse_b)[0], lse_a))
    wrong = values_and_gradients(lambda *x: attend(*x, Layout(trees, CPU), SCALE), qkv)
    assert torch.equal(wrong[0], right[0])
    assert all((a - b).norm() > 0.01 * b.norm() for a, b in zip(wrong[1:], right[1:], strict=True))


def test_autograd_through_the_definition_agrees_with_finite_differences() -> None:
    trees = trees_of([(3, (2, 0, 1)), (1, (2, 1))])
    qkv = [x.requires_grad_() for x in inputs(trees, 2, 1, 4, torch.float64)]
    assert torch.autograd.gradcheck(lambda *x: attend(*x, Layout(trees, CPU), SCALE), qkv)


def test_trees_cover_the_row() -> None:
    with pytest.raises(AssertionError, match="gap"):
        Layout([Tree(0, 3, (2,)), Tree(6, 1, ())], CPU)
    assert visible(trees_of([(2, (1, 1))]), CPU).tolist() == [
        [True, False, False, False],
        [True, True, False, False],
        [True, True, True, False],
        [True, True, False, True],
    ]


class RowsOnCpu:
    """Stands where torch's kernels for rows of sequences are, which only GPUs have: one CPU call a sequence."""

    def __init__(self) -> None:
        self.calls = 0

    def __getattr__(self, name: str):
        return getattr(torch.ops.aten, name)

    def _flash_attention_forward(self, query, key, value, cum_q, cum_k, max_q, max_k, dropout, causal, **options):
        self.calls += 1
        out, lse = torch.full_like(query, torch.nan), flash.empty_lse(query)
        for (s, e), (ks, ke) in self._sequences(query, key, cum_q, cum_k, max_q, max_k):
            out[s:e], lse[:, s:e] = flash.cpu(query[s:e], key[ks:ke], value[ks:ke], causal, options["scale"])
        return out, lse, None, None, None

    def _flash_attention_backward(
        self, d_out, query, key, value, out, lse, cum_q, cum_k, max_q, max_k, dropout, causal, state, unused, *, scale
    ):
        self.calls += 1
        assert lse.is_contiguous() and lse.dtype == torch.float32
        grads = [torch.full_like(x, torch.nan) for x in (query, key, value)]
        for (s, e), (ks, ke) in self._sequences(query, key, cum_q, cum_k, max_q, max_k):
            forward = (query[s:e], key[ks:ke], value[ks:ke], out[s:e], lse[:, s:e])
            parts = flash.cpu_backward(d_out[s:e], *forward, causal, scale)
            for grad, part, rows in zip(grads, parts, (slice(s, e), slice(ks, ke), slice(ks, ke)), strict=True):
                grad[rows] = part
        return tuple(grads)

    @staticmethod
    def _sequences(query, key, cum_q, cum_k, max_q, max_k):
        assert cum_q.dtype == cum_k.dtype == torch.int32
        assert (cum_q[-1], cum_k[-1]) == (len(query), len(key))
        assert (cum_q.diff().max(), cum_k.diff().max()) == (max_q, max_k)
        return list(zip(pairwise(cum_q.tolist()), pairwise(cum_k.tolist()), strict=True))


def test_the_calls_of_a_gpu_are_right_with_a_stand_in_for_its_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    trees = trees_of(RAGGED)
    layout = Layout(trees, CPU)
    layout.packed = flash.PackedCalls(layout.segments, layout.crossings, CPU)
    rows = RowsOnCpu()
    monkeypatch.setattr(flash, "_aten", rows)
    assert compare(trees, 6, 2, torch.bfloat16, layout) < 1e-2
    assert rows.calls == 4, "two forward and two backward for the whole row"
