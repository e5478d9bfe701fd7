"""SDPA attention against an explicit softmax in fp64: values and gradients, dense and packed."""

import math
from itertools import pairwise
from types import SimpleNamespace

import pytest
import torch

from pivotrl.policy import device

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
