"""Which Hugging Face tensors make up which Megatron parameter. Pure: no process group, no live tensor but those given.

A Hugging Face tensor is split along at most one dimension, over the tensor-parallel ranks (an expert's over the
expert-tensor ranks), in equal shards; a vocabulary that does not divide has zeros behind its last row. A rank's
Megatron parameter joins its shards of one or several of them:

- `whole`: one tensor's shard as it is;
- `cat`: gate shard, then up shard, along the first dimension (the fused gated MLP);
- `qkv`: for each key-value head of the rank, the rows of its query heads, its key rows, its value rows.

`join` and `split` are each other's inverse, so loading and exporting share this one map.
"""

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from pivotrl.policy.architecture import Architecture

Join = Literal["whole", "cat", "qkv"]


@dataclass(frozen=True, slots=True)
class MoeNames:
    """What an architecture's files call the parts of an MoE layer."""

    block: str
    """Between `model.layers.{i}.` and `.gate.weight` or `.experts.`."""
    gate: str
    up: str
    down: str


_QWEN_MOE = MoeNames("mlp", "gate_proj", "up_proj", "down_proj")
MIXTRAL_MOE = MoeNames("block_sparse_moe", "w1", "w3", "w2")


def moe_names(arch: Architecture) -> MoeNames:
    """Names of the MoE layers' parts in the architecture's files."""
    return MIXTRAL_MOE if arch.name == "MixtralForCausalLM" else _QWEN_MOE


def padded_vocab(arch: Architecture, tensor: int) -> int:
    """Rows of the embedding over `tensor` ranks: the next multiple. Those beyond the vocabulary are zero.

    They are never looked up, take no probability and are never exported, so they stay zero.
    """
    return -(-arch.vocab // tensor) * tensor


@dataclass(frozen=True, slots=True)
class Layout:
    """One rank's coordinates in the parallel layout."""

    tp_rank: int = 0
    tp_size: int = 1
    pp_rank: int = 0
    pp_size: int = 1
    ep_rank: int = 0
    ep_size: int = 1
    etp_rank: int = 0
    etp_size: int = 1
    vp_size: int = 1
    """Chunks of layers on each pipeline stage."""


@dataclass(frozen=True, slots=True)
class HfTensor:
    """One tensor under its Hugging Face name."""

    name: str
    shape: tuple[int, ...]
    """Of the whole tensor."""
    dim: int | None
    """The dimension that is split; None where every rank holds all of it."""

    def shard_shape(self, parts: int) -> tuple[int, ...]:
        """Shape of one of `parts` equal shards, padding included."""
        if self.dim is None:
            return self.shape
        return tuple(-(-size // parts) if d == self.dim else size for d, size in enumerate(self.shape))


@dataclass(frozen=True, slots=True)
class Param:
    """One parameter of this rank's Megatron model."""

    names: tuple[str, ...]
    """Its name with torch layers, then the one with Transformer Engine's where that differs."""
    parts: tuple[HfTensor, ...]
    join: Join
    expert: bool = False
    """Split over the expert-tensor ranks instead of the tensor ranks."""
    copy_of_embedding: bool = False
    """The last stage's copy of a tied embedding: loaded, never exported."""


def layers_of_stage(arch: Architecture, layout: Layout) -> list[tuple[str, int]]:
    """This pipeline stage's decoder layers, chunk after chunk: each one's prefix in Megatron, and its index.

    With several chunks a stage, chunk v of stage p holds run v * PP + p of the PP * VP equal runs of layers, and its
    names begin with `chunk{v}.` (see `chunks.py`).
    """
    count = arch.layers // (layout.pp_size * layout.vp_size)
    return [
        (f"{chunk_prefix(chunk, layout)}decoder.layers.{local}.", first + local)
        for chunk in range(layout.vp_size)
        for first in [(chunk * layout.pp_size + layout.pp_rank) * count]
        for local in range(count)
    ]


def chunk_prefix(chunk: int, layout: Layout) -> str:
    """What the names of a chunk's parameters begin with."""
    return f"chunk{chunk}." if layout.vp_size > 1 else ""


def experts_of_rank(arch: Architecture, layout: Layout) -> range:
    """Indices of this rank's experts."""
    count = arch.experts // layout.ep_size
    return range(layout.ep_rank * count, (layout.ep_rank + 1) * count)


def embedding(arch: Architecture) -> HfTensor:
    """The input embedding."""
    return HfTensor("model.embed_tokens.weight", (arch.vocab, arch.hidden), 0)


def params_of_rank(arch: Architecture, layout: Layout) -> list[Param]:
    """Every parameter of this rank, in the order of the layers."""
    params = []
    if layout.pp_rank == 0:
        first = chunk_prefix(0, layout)
        params.append(Param((f"{first}embedding.word_embeddings.weight",), (embedding(arch),), "whole"))
    for ours, layer in layers_of_stage(arch, layout):
        params += _attention(arch, ours, f"model.layers.{layer}.")
        mlp = _experts if arch.experts else _dense_mlp
        params += mlp(arch, layout, ours, f"model.layers.{layer}.")
    if layout.pp_rank == layout.pp_size - 1:
        last = chunk_prefix(layout.vp_size - 1, layout)
        norm = HfTensor("model.norm.weight", (arch.hidden,), None)
        params.append(Param((f"{last}decoder.final_layernorm.weight",), (norm,), "whole"))
        if not arch.tied:
            head = HfTensor("lm_head.weight", (arch.vocab, arch.hidden), 0)
            params.append(Param((f"{last}output_layer.weight",), (head,), "whole"))
        elif layout.pp_size > 1:
            name = f"{last}output_layer.weight"
            params.append(Param((name,), (embedding(arch),), "whole", copy_of_embedding=True))
    return params


def _attention(arch: Architecture, ours: str, theirs: str) -> list[Param]:
    rows = {"q": arch.heads * arch.head_dim, "k": arch.kv_heads * arch.head_dim, "v": arch.kv_heads * arch.head_dim}
    a, b = f"{ours}self_attention.", f"{theirs}self_attn."

    def norm(name: str, size: int) -> tuple[HfTensor, ...]:
        return (HfTensor(name, (size,), None),)

    params = [
        Param(
            (f"{ours}input_layernorm.weight", f"{a}linear_qkv.layer_norm_weight"),
            norm(f"{theirs}input_layernorm.weight", arch.hidden),
            "whole",
        ),
        Param(
            (f"{a}linear_qkv.weight",),
            tuple(HfTensor(f"{b}{x}_proj.weight", (n, arch.hidden), 0) for x, n in rows.items()),
            "qkv",
        ),
        Param((f"{a}linear_proj.weight",), (HfTensor(f"{b}o_proj.weight", (arch.hidden, rows["q"]), 1),), "whole"),
    ]
    if arch.attention_bias:
        biases = tuple(HfTensor(f"{b}{x}_proj.bias", (n,), 0) for x, n in rows.items())
        params.append(Param((f"{a}linear_qkv.bias",), biases, "qkv"))
    if arch.output_bias:
        params.append(Param((f"{a}linear_proj.bias",), norm(f"{b}o_proj.bias", arch.hidden), "whole"))
    if arch.qk_norm:
        for x in "qk":
            params.append(Param((f"{a}{x}_layernorm.weight",), norm(f"{b}{x}_norm.weight", arch.head_dim), "whole"))
    return params


def _dense_mlp(arch: Architecture, layout: Layout, ours: str, theirs: str) -> list[Param]:
    gate, up = (HfTensor(f"{theirs}mlp.{x}_proj.weight", (arch.ffn, arch.hidden), 0) for x in ("gate", "up"))
    down = HfTensor(f"{theirs}mlp.down_proj.weight", (arch.hidden, arch.ffn), 1)
    norm = HfTensor(f"{theirs}post_attention_layernorm.weight", (arch.hidden,), None)
    return [
        Param((f"{ours}pre_mlp_layernorm.weight", f"{ours}mlp.linear_fc1.layer_norm_weight"), (norm,), "whole"),
        Param((f"{ours}mlp.linear_fc1.weight",), (gate, up), "cat"),
        Param((f"{ours}mlp.linear_fc2.weight",), (down,), "whole"),
    ]


def _experts(arch: Architecture, layout: Layout, ours: str, theirs: str) -> list[Param]:
    norm = HfTensor(f"{theirs}post_attention_layernorm.weight", (arch.hidden,), None)
    router = HfTensor(f"{theirs}{moe_names(arch).block}.gate.weight", (arch.experts, arch.hidden), None)
    params = [
        Param((f"{ours}pre_mlp_layernorm.weight",), (norm,), "whole"),
        Param((f"{ours}mlp.router.weight",), (router,), "whole"),
    ]
    for local, expert in enumerate(experts_of_rank(arch, layout)):
        gate, up, down = expert_tensors(arch, theirs, expert)
        for fc, parts, join in (("linear_fc1", (gate, up), "cat"), ("linear_fc2", (down,), "whole")):
            one_by_one = f"{ours}mlp.experts.local_experts.{local}.{fc}.weight"
            params.append(Param((one_by_one, f"{ours}mlp.experts.{fc}.weight{local}"), parts, join, expert=True))
    return params


def expert_tensors(arch: Architecture, prefix: str, expert: int) -> tuple[HfTensor, HfTensor, HfTensor]:
    """Gate, up and down projection of one expert; `prefix` is `model.layers.{i}.`."""
    names = moe_names(arch)
    name = f"{prefix}{names.block}.experts.{expert}."
    gate, up = (HfTensor(f"{name}{x}.weight", (arch.expert_ffn, arch.hidden), 0) for x in (names.gate, names.up))
    return gate, up, HfTensor(f"{name}{names.down}.weight", (arch.hidden, arch.expert_ffn), 1)


def stacked_experts(arch: Architecture) -> dict[str, HfTensor]:
    """Every MoE layer's experts as two tensors, gate over up [E, 2I, H] and down [E, H, I], by name."""
    tensors = [
        HfTensor(f"model.layers.{layer}.{moe_names(arch).block}.experts.{kind}", (arch.experts, *shape), None)
        for layer in range(arch.layers if arch.experts else 0)
        for kind, shape in (
            ("gate_up_proj", (2 * arch.expert_ffn, arch.hidden)),
            ("down_proj", (arch.hidden, arch.expert_ffn)),
        )
    ]
    return {tensor.name: tensor for tensor in tensors}


def all_tensors(arch: Architecture) -> dict[str, HfTensor]:
    """Every tensor of the model by its Hugging Face name, one per expert."""
    params = params_of_rank(arch, Layout())
    return {part.name: part for param in params for part in param.parts}


def join(param: Param, shards: list[Tensor], arch: Architecture) -> Tensor:
    """A rank's Megatron parameter from its shards of the Hugging Face tensors."""
    if param.join == "whole":
        return shards[0]
    if param.join == "cat":
        return torch.cat(shards)
    kv_heads = shards[1].shape[0] // arch.head_dim
    per_head = [shard.unflatten(0, (kv_heads, -1)) for shard in shards]
    return torch.cat(per_head, dim=1).flatten(0, 1)


def split(param: Param, tensor: Tensor, arch: Architecture) -> list[Tensor]:
    """Views of a rank's Megatron parameter, one per Hugging Face tensor: `join` undone.

    The views of `qkv` are [key-value heads, rows of one, ...]: flatten the first two dimensions (a copy) or copy them
    into memory of the flat shape.
    """
    if param.join == "whole":
        return [tensor]
    if param.join == "cat":
        return list(tensor.chunk(2))
    kv_heads = tensor.shape[0] // ((arch.heads // arch.kv_heads + 2) * arch.head_dim)
    rows = [arch.heads // arch.kv_heads * arch.head_dim, arch.head_dim, arch.head_dim]
    return list(tensor.unflatten(0, (kv_heads, -1)).split(rows, dim=1))
