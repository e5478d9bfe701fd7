"""Attention cores of the layers: torch's SDPA or Transformer Engine's, and `tree_attention` for rows of trees.

Legend: T = tokens of a packed row, S = sequence length, B = batch, H = query heads of this rank, K = key-value heads
of this rank, D = head size.
"""

import itertools
import math
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from megatron.core.packed_seq_params import PackedSeqParams
from megatron.core.transformer.module import MegatronModule
from torch import Tensor

from pivotrl.policy import tree_attention
from pivotrl.policy.packing import MicroBatch


@dataclass
class TreeParams(PackedSeqParams):
    """A row of trees, where Megatron hands on how a row is packed, through its layers and their recomputation.

    `qkv_format` stays "sbhd": Megatron then applies RoPE token by token, from the table that `PolicyModel` picks by
    position. With "thd" it would begin at 0 in every sequence.
    """

    layout: tree_attention.Layout | None = None


def packed_params(batch: MicroBatch, packing: str) -> PackedSeqParams:
    """What Megatron's layers are told of the row: its trees, or with `plain` packing the bounds of its sequences."""
    if packing == "prompt_once":
        layout = tree_attention.Layout(batch.trees, batch.input_ids.device)
        longest = max(tree.prompt + max(tree.responses, default=0) for tree in batch.trees)
        return TreeParams(qkv_format="sbhd", max_seqlen_q=longest, max_seqlen_kv=longest, layout=layout)
    bounds = [tree.start for tree in batch.trees] + [batch.trees[-1].end]
    cu_seqlens = torch.tensor(bounds, dtype=torch.int32, device=batch.input_ids.device)
    longest = max(end - start for start, end in itertools.pairwise(bounds))
    return PackedSeqParams(
        qkv_format="thd",
        cu_seqlens_q=cu_seqlens,
        cu_seqlens_kv=cu_seqlens,
        max_seqlen_q=longest,
        max_seqlen_kv=longest,
    )


def attend_trees(query: Tensor, key: Tensor, value: Tensor, params: TreeParams, scale: float) -> Tensor:
    """[T, 1, H, D] and twice [T, 1, K, D], as Megatron's attention layer has them, to [T, 1, H * D]."""
    out_THD = tree_attention.attend(query.squeeze(1), key.squeeze(1), value.squeeze(1), params.layout, scale)
    return out_THD.flatten(1)[:, None]


class SdpaAttention(MegatronModule):
    """Causal attention that stands where Megatron's `core_attention` stands in a layer's specification.

    Megatron's own local attention refuses packed rows. Dropout, sliding windows, context parallelism and masks other
    than the causal one are not supported; the models that `Architecture` accepts need none.
    """

    def __init__(
        self,
        config: Any,
        layer_number: int,
        attn_mask_type: Any,
        attention_type: str,
        softmax_scale: float | None = None,
        **_: Any,
    ) -> None:
        super().__init__(config=config)
        assert attention_type == "self"
        assert config.context_parallel_size == 1
        assert config.attention_dropout == 0.0
        self.scale = softmax_scale or 1.0 / math.sqrt(config.kv_channels)

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        attention_mask: Tensor | None = None,
        attn_mask_type: Any = None,
        attention_bias: Tensor | None = None,
        packed_seq_params: Any = None,
    ) -> Tensor:
        """Attend; `attention_mask` is not read, every sequence is causal.

        Args:
            query: [S, B, H, D], or packed [T, H, D].
            key, value: [S, B, K, D], or packed [T, K, D].
            packed_seq_params: Megatron's PackedSeqParams; with `qkv_format` "thd" its `cu_seqlens_q` bounds the
                sequences. Tokens behind the last bound are padding and give zeros. With TreeParams B is 1.

        Returns:
            [S, B, H * D], or packed [T, H * D].
        """
        assert attention_bias is None
        if isinstance(packed_seq_params, TreeParams):
            return attend_trees(query, key, value, packed_seq_params, self.scale)
        if packed_seq_params is not None and packed_seq_params.qkv_format == "thd":
            return self._packed(query, key, value, packed_seq_params.cu_seqlens_q.tolist())
        seq, batch = query.shape[:2]
        out_BHSD = self._causal(*(x.permute(1, 2, 0, 3) for x in (query, key, value)))
        return out_BHSD.permute(2, 0, 1, 3).reshape(seq, batch, -1)

    def _packed(self, query_THD: Tensor, key_TKD: Tensor, value_TKD: Tensor, bounds: list[int]) -> Tensor:
        parts = []
        for start, end in itertools.pairwise(bounds):
            if end > start:
                q, k, v = (x[start:end].transpose(0, 1)[None] for x in (query_THD, key_TKD, value_TKD))
                parts.append(self._causal(q, k, v)[0].transpose(0, 1))
        tail = query_THD.shape[0] - bounds[-1]
        if tail:
            parts.append(query_THD.new_zeros((tail, *query_THD.shape[1:])))
        return torch.cat(parts).flatten(1)

    def _causal(self, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        grouped = query.shape[-3] != key.shape[-3]
        return F.scaled_dot_product_attention(query, key, value, is_causal=True, scale=self.scale, enable_gqa=grouped)


def transformer_engine_attention() -> type:
    """Transformer Engine's attention, which hands rows of trees to `tree_attention`. GPU only."""
    from megatron.core.extensions.transformer_engine import TEDotProductAttention

    class TreeOrFusedAttention(TEDotProductAttention):
        def __init__(self, config: Any, *args: Any, softmax_scale: float | None = None, **kwargs: Any) -> None:
            super().__init__(config, *args, softmax_scale=softmax_scale, **kwargs)
            self.tree_scale = softmax_scale or 1.0 / math.sqrt(config.kv_channels)
            self.context_parallel = config.context_parallel_size

        def forward(
            self, query: Tensor, key: Tensor, value: Tensor, *args: Any, packed_seq_params: Any = None, **kwargs: Any
        ) -> Tensor:
            if not isinstance(packed_seq_params, TreeParams):
                return super().forward(query, key, value, *args, packed_seq_params=packed_seq_params, **kwargs)
            if self.context_parallel > 1:
                raise ValueError(
                    f"training.packing is prompt_once, which does not split a sequence over the "
                    f"{self.context_parallel} context-parallel ranks: set training.packing: plain"
                )
            return attend_trees(query, key, value, packed_seq_params, self.tree_scale)

    return TreeOrFusedAttention
