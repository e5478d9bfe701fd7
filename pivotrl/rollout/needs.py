"""What each rank of an engine needs of the policy's tensors, from the model's sizes and the engine's layout alone.

vLLM's rules, by reading 0.32 (`linear.py`, `vocab_parallel_embedding.py`, `fused_moe/expert_map_manager.py`): heads and
columns by rank; key-value heads repeated where there are fewer than ranks; rows of the vocabulary in equal shards of a
multiple of 64; experts cut by columns, or, where the engine is expert-parallel, whole and in linear order, the first
ranks one more where they do not divide. `inventory.py` reads the same from a live model; a refit holds one against
the other before the first byte.
"""

import functools
from dataclasses import dataclass

from pivotrl.policy.architecture import Architecture
from pivotrl.policy.shards import Bounds, Shape, tensor_shapes

_VOCABULARY_PADDING = 64


@dataclass(frozen=True, slots=True)
class EngineLayout:
    """How the world's ranks are divided into engines."""

    tensor: int = 1
    """Ranks [k * tensor, (k + 1) * tensor) hold engine k."""
    expert_parallel: bool = False
    """Its ranks hold whole experts instead of columns of each."""


def needs_of_rank(arch: Architecture, layout: EngineLayout, rank: int) -> dict[str, list[Bounds]]:
    """Boxes of every tensor that a rank of the world needs, in the order of the layers."""
    return _needs(arch, layout, rank % layout.tensor)


@functools.cache
def _needs(arch: Architecture, layout: EngineLayout, place: int) -> dict[str, list[Bounds]]:
    return {name: _boxes(arch, layout, place, name, shape) for name, shape in tensor_shapes(arch).items()}


def _boxes(arch: Architecture, layout: EngineLayout, place: int, name: str, shape: Shape) -> list[Bounds]:
    size = layout.tensor
    whole = [(0, extent) for extent in shape]

    def cut(dim: int, parts: int, part: int) -> list[Bounds]:
        each = shape[dim] // parts
        return [tuple((part * each, (part + 1) * each) if d == dim else bound for d, bound in enumerate(whole))]

    kind = ".".join(name.split(".")[-2:])
    leaf = kind.split(".")[0]
    if leaf in ("embed_tokens", "lm_head"):
        padded = -(-shape[0] // _VOCABULARY_PADDING) * _VOCABULARY_PADDING
        each = padded // size
        first, last = min(place * each, shape[0]), min((place + 1) * each, shape[0])
        return [((first, last), whole[1])] if last > first else []
    if kind == "experts.gate_up_proj":
        if layout.expert_parallel:
            return _halves([_experts(arch.experts, size, place), *whole[1:]], arch.expert_ffn, 1, 0)
        return _halves(whole, arch.expert_ffn, size, place)
    if kind == "experts.down_proj":
        if layout.expert_parallel:
            return [(_experts(arch.experts, size, place), *whole[1:])]
        return cut(2, size, place)
    if leaf in ("k_proj", "v_proj"):
        parts = min(size, arch.kv_heads)
        return cut(0, parts, place * parts // size)
    if leaf in ("q_proj", "gate_proj", "up_proj"):
        return cut(0, size, place)
    if kind in ("o_proj.weight", "down_proj.weight"):
        return cut(1, size, place)
    return [tuple(whole)]  # norms, routers, biases behind a sum


def _experts(count: int, size: int, place: int) -> tuple[int, int]:
    each, more = divmod(count, size)
    first = place * each + min(place, more)
    return first, first + each + (place < more)


def _halves(bounds: list[tuple[int, int]], inner: int, size: int, place: int) -> list[Bounds]:
    """A rank's columns of gate, then of up."""
    each = inner // size
    return [(bounds[0], (half * inner + place * each, half * inner + (place + 1) * each), bounds[2]) for half in (0, 1)]
