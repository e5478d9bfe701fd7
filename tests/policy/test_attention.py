"""Attention cores against an explicit softmax in fp64: values and gradients, dense, packed and in trees."""

import math
from itertools import pairwise
from types import SimpleNamespace

import pytest
import torch

from pivotrl.policy import device
from pivotrl.policy.packing import MicroBatch, Sample, pack
from pivotrl.policy.tree_attention import attend_by_definition

HEADS, KV_HEADS, SIZE = 6, 2, 8


@pytest.fixture(scope="module")
def attention():
    device.prepare()
    from megatron.core.transformer import TransformerConfig

    from pivotrl.policy.attention import SdpaAttention

    config = TransformerConfig(
        num_layers=1,
        hidden_size=48,
        num_attention_heads=HEADS,
        num_query_groups=KV_HEADS,
        kv_channels=SIZE,
        attention_dropout=0.0,
        hidden_dropout=0.0,
    )
    return SdpaAttention(config, 1, None, "self")


def explicit(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
    """[S, H, D], [S, K, D] -> [S, H * D], one causal sequence."""
    key, value = (x.repeat_interleave(HEADS // KV_HEADS, dim=1) for x in (key, value))
    scores = torch.einsum("shd,thd->hst", query, key) / math.sqrt(SIZE)
    scores = scores.masked_fill(torch.ones(scores.shape[1:]).triu(1).bool(), -math.inf)
    return torch.einsum("hst,thd->shd", scores.softmax(-1), value).flatten(1)


def inputs(*leading: int) -> list[torch.Tensor]:
    torch.manual_seed(0)
    return [torch.randn(*leading, heads, SIZE, dtype=torch.float64) for heads in (HEADS, KV_HEADS, KV_HEADS)]


def compare(ours, theirs, qkv: list[torch.Tensor]) -> None:
    """Equal values, and equal gradients of a weighted sum of them."""
    results = []
    for function in (ours, theirs):
        leaves = [x.clone().requires_grad_() for x in qkv]
        out = function(*leaves)
        weights = torch.linspace(-1, 1, out.numel(), dtype=torch.float64).view(out.shape)
        results.append([out, *torch.autograd.grad((out * weights).sum(), leaves)])
    for one, other in zip(*results):
        torch.testing.assert_close(one, other, rtol=1e-12, atol=1e-12)


def test_dense(attention) -> None:
    def by_row(query, key, value):
        rows = [explicit(query[:, b], key[:, b], value[:, b]) for b in range(query.shape[1])]
        return torch.stack(rows, dim=1)

    compare(attention, by_row, inputs(7, 3))


@pytest.mark.parametrize("lengths", [(9,), (1, 5, 3), (4, 0, 5)], ids=str)
@pytest.mark.parametrize("tail", [0, 3])
def test_packed(attention, lengths: tuple[int, ...], tail: int) -> None:
    bounds = torch.tensor([0, *lengths]).cumsum(0).to(torch.int32)
    params = SimpleNamespace(qkv_format="thd", cu_seqlens_q=bounds, cu_seqlens_kv=bounds)

    def apart(query, key, value):
        parts = [explicit(*(x[a:b] for x in (query, key, value))) for a, b in pairwise(bounds) if b > a]
        return torch.cat([*parts, query.new_zeros(tail, HEADS * SIZE)])

    compare(lambda *qkv: attention(*qkv, packed_seq_params=params), apart, inputs(sum(lengths) + tail))


def packed_row() -> MicroBatch:
    samples = [Sample([5, 6, 7], [1, 2, 3]), Sample([5, 6, 7], [4, 4]), Sample([8], [9, 9])]
    return pack(samples, [(0, 1), (2,)], 8, torch.device("cpu"))


def test_a_row_of_trees(attention) -> None:
    from pivotrl.policy.attention import packed_params

    batch = packed_row()
    params = packed_params(batch, "prompt_once")
    assert params.qkv_format == "sbhd" and params.max_seqlen_q == 5

    def by_definition(query, key, value):
        squeezed = (x.squeeze(1) for x in (query, key, value))
        return attend_by_definition(*squeezed, batch.trees, SIZE**-0.5).flatten(1)[:, None]

    compare(lambda *qkv: attention(*qkv, packed_seq_params=params), by_definition, inputs(8, 1))


def test_plain_rows_have_the_bounds_of_their_sequences() -> None:
    from pivotrl.policy.attention import packed_params

    params = packed_params(packed_row(), "plain")
    assert (params.qkv_format, params.cu_seqlens_q.tolist(), params.max_seqlen_q) == ("thd", [0, 6, 8], 6)


def test_transformer_engine_gets_plain_rows_and_trees_are_attended_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a stand-in for Transformer Engine's attention, which only GPUs have."""
    device.prepare()
    from megatron.core.extensions import transformer_engine

    from pivotrl.policy.attention import packed_params, transformer_engine_attention

    class Fused:
        def __init__(self, config, layer_number, softmax_scale=None) -> None: ...
        def forward(self, query, key, value, attention_mask, attn_mask_type, packed_seq_params=None):
            return "fused"

    monkeypatch.setattr(transformer_engine, "TEDotProductAttention", Fused)
    qkv, batch = inputs(8, 1), packed_row()
    trees = packed_params(batch, "prompt_once")

    def core(context_parallel: int):
        config = SimpleNamespace(kv_channels=SIZE, context_parallel_size=context_parallel)
        return transformer_engine_attention()(config, 1).forward

    assert core(1)(*qkv, None, None, packed_seq_params=packed_params(batch, "plain")) == "fused"
    assert core(2)(*qkv, None, None, packed_seq_params=None) == "fused"
    expected = attend_by_definition(*(x.squeeze(1) for x in qkv), batch.trees, SIZE**-0.5)
    torch.testing.assert_close(core(1)(*qkv, None, None, packed_seq_params=trees), expected.flatten(1)[:, None])
    with pytest.raises(ValueError, match=r"2 context-parallel ranks: set training\.packing: plain"):
        core(2)(*qkv, None, None, packed_seq_params=trees)
