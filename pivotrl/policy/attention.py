"""Attention core on a CPU: torch's SDPA, dense or packed. On a GPU Transformer Engine's takes this place.

Legend: T = tokens of a packed row, S = sequence length, B = batch, H = query heads of this rank, K = key-value heads
of this rank, D = head size.
"""

import itertools
import math
from typing import Any

import torch
import torch.nn.functional as F
from megatron.core.transformer.module import MegatronModule
from torch import Tensor


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
                sequences. Tokens behind the last bound are padding and give zeros.

        Returns:
            [S, B, H * D], or packed [T, H * D].
        """
        assert attention_bias is None
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
