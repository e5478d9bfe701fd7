"""Bytes that stay while a run lasts: weights, gradients, optimizer, and what the engine holds.

Weights, gradients and optimizer are exact (tests/planning holds them against real models on a CPU). The engine's
weights and cache are by reading vLLM's layers, as are precision_aware and offload, which need a GPU.
"""

from dataclasses import dataclass

from pivotrl.config import RunConfig
from pivotrl.planning.hardware import GIB
from pivotrl.planning.shards import layout_at, shard_of
from pivotrl.policy.architecture import Architecture
from pivotrl.policy.config import OptimizerConfig

_VOCABULARY_PADDING = 64  # vLLM's


@dataclass(frozen=True, slots=True)
class TrainerBytes:
    """What the trainer of one rank holds."""

    weights: int
    gradients: int
    optimizer: int
    optimizer_on_host: int
    """Share of the optimizer that lives in the CPU's memory (`optimizer.offload`)."""
    trained: int
    """Numbers whose optimizer state this rank keeps."""


def element_size(dtype: str) -> int:
    """Bytes of one number of `model.dtype`."""
    return {"float32": 4, "bfloat16": 2}[dtype]


def trainer_bytes(config: RunConfig, arch: Architecture, ranks: int, stage: int, data_rank: int = 0) -> TrainerBytes:
    """Weights, gradients and optimizer of a rank of a pipeline stage."""
    element, chosen = element_size(config.model.dtype), config.optimizer
    layout = layout_at(config.parallel, stage)
    shard = shard_of(arch, layout, ranks, config.model.freeze_router, chosen.distributed, data_rank)
    in_buffers = shard.dense + shard.experts
    state = shard.owned * optimizer_bytes(chosen, element)
    return TrainerBytes(
        weights=element * (in_buffers + shard.frozen),
        gradients=4 * in_buffers,
        optimizer=round(state * (1 - chosen.offload)),
        optimizer_on_host=round(state * chosen.offload),
        trained=shard.owned,
    )


def optimizer_bytes(chosen: OptimizerConfig, element: int) -> int:
    """Bytes for each trained number: Adam's two moments, and a float32 copy of a bfloat16 weight."""
    return (4 if element == 2 else 0) + (2 * 2 if chosen.precision_aware else 2 * 4)


def engine_weight_bytes(arch: Architecture, tensor: int, element: int) -> int:
    """An engine's weights on one rank, in vLLM's split of heads, columns, experts' inner width and vocabulary."""
    q, kv = arch.heads // tensor * arch.head_dim, max(1, arch.kv_heads // tensor) * arch.head_dim
    attention = arch.hidden * (2 * q + 2 * kv) + 2 * arch.hidden
    mlp = 3 * arch.hidden * arch.ffn // tensor
    if arch.experts:
        mlp = arch.experts * (3 * arch.hidden * arch.expert_ffn // tensor + arch.hidden)
    rows = -(-arch.vocab // _VOCABULARY_PADDING) * _VOCABULARY_PADDING // tensor
    return element * (arch.layers * (attention + mlp) + rows * arch.hidden * (1 if arch.tied else 2))


def kv_bytes_per_token(arch: Architecture, tensor: int, element: int) -> int:
    """Keys and values of one token in all layers, on one rank of an engine. Below one head a rank, heads repeat."""
    return 2 * max(1, arch.kv_heads // tensor) * arch.head_dim * arch.layers * element


def kv_tokens(config: RunConfig, arch: Architecture) -> int:
    """Tokens that `rollout.kv_cache_gib` holds."""
    per_token = kv_bytes_per_token(arch, config.rollout.tensor, element_size(config.model.dtype))
    return int(config.rollout.kv_cache_gib * GIB) // per_token
