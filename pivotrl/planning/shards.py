"""How many numbers a rank holds: its parameters, Megatron's buffers around them, and its share of the optimizer.

Exact: the parameters come from `policy.mapping`, the padding follows Megatron-Core 0.16.1's
`param_and_grad_buffer.py`. Held against `policy.memory.measured_bytes` of real models by tests/planning.
"""

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from pivotrl.policy.architecture import Architecture
from pivotrl.policy.config import ParallelConfig
from pivotrl.policy.mapping import Layout, Param, params_of_rank

_ALIGN_START = 64
_ALIGN_BUCKET = 128


@dataclass(frozen=True, slots=True)
class Weight:
    """One parameter of a rank."""

    numel: int
    expert: bool
    """In the experts' buffer, which is reduced over the expert-data-parallel ranks."""
    trained: bool
    alone: bool
    """In a bucket of its own: a tied embedding whose copy is on another pipeline stage."""


@dataclass(frozen=True, slots=True)
class Shard:
    """Numbers that a rank holds."""

    frozen: int
    """Parameters that are not trained."""
    dense: int
    """In Megatron's buffers of trained parameters outside the experts, padding included."""
    experts: int
    """In those of the experts."""
    owned: int
    """Whose optimizer state the rank keeps."""


def layout_at(parallel: ParallelConfig, stage: int) -> Layout:
    """The coordinates of a first rank of a pipeline stage: all ranks of a stage hold equally much."""
    return Layout(
        tp_size=parallel.tensor,
        pp_rank=stage,
        pp_size=parallel.pipeline,
        vp_size=parallel.virtual_pipeline,
        ep_size=parallel.expert,
        etp_size=parallel.expert_tensor,
    )


def data_parallel(parallel: ParallelConfig, ranks: int) -> tuple[int, int]:
    """Data-parallel sizes of everything but the experts, and of the experts."""
    return _data_ranks(layout_at(parallel, 0), ranks)


def _data_ranks(layout: Layout, ranks: int) -> tuple[int, int]:
    experts = layout.etp_size * layout.ep_size * layout.pp_size
    return ranks // (layout.tp_size * layout.pp_size), ranks // experts


def weights_of_rank(arch: Architecture, layout: Layout, freeze_router: bool) -> tuple[tuple[Weight, ...], ...]:
    """Every parameter of a rank, for each chunk of its stage."""
    runs = layout.pp_size * layout.vp_size
    # all layers are alike: describe one a chunk, and count it as often as there are such layers
    one_each = params_of_rank(replace(arch, layers=runs), layout)
    chunks = []
    for chunk in range(layout.vp_size):
        prefix = f"chunk{chunk}." if layout.vp_size > 1 else ""
        mine = [param for param in one_each if param.names[0].startswith(prefix)]
        layer = [param for param in mine if ".layers." in param.names[0]]
        first = mine.index(layer[0])
        ordered = mine[:first] + layer * (arch.layers // runs) + mine[first + len(layer) :]
        counted = {id(param): _weight(param, arch, layout, freeze_router) for param in mine}
        chunks.append(tuple(counted[id(param)] for param in ordered))
    return tuple(chunks)


def _weight(param: Param, arch: Architecture, layout: Layout, freeze_router: bool) -> Weight:
    parts = layout.etp_size if param.expert else layout.tp_size
    name = param.names[0]
    is_tied_end = arch.tied and layout.pp_size > 1 and ("word_embeddings" in name or param.copy_of_embedding)
    return Weight(
        numel=sum(math.prod(part.shard_shape(parts)) for part in param.parts),
        expert=param.expert,
        trained=not (freeze_router and ".router." in name),
        alone=is_tied_end,
    )


@functools.lru_cache(maxsize=1024)
def shard_of(
    arch: Architecture, layout: Layout, ranks: int, freeze_router: bool, distributed: bool, rank: int = 0
) -> Shard:
    """What a rank of this layout holds.

    Args:
        ranks: of the whole run.
        distributed: `optimizer.distributed`, which pads and shards.
        rank: data-parallel rank whose share of the optimizer is counted. Rank 0 has no less than any other.
    """
    chunks = weights_of_rank(arch, layout, freeze_router)
    numel, owned = {False: 0, True: 0}, 0
    for chunk in chunks:
        for expert, together in zip((False, True), _data_ranks(layout, ranks), strict=True):
            weights = [weight for weight in chunk if weight.trained and weight.expert == expert]
            if weights:
                padded, mine = _buffer(weights, distributed, together, rank % together)
                numel[expert] += padded
                owned += mine
    frozen = sum(weight.numel for chunk in chunks for weight in chunk if not weight.trained)
    return Shard(frozen, numel[False], numel[True], owned)


def _buffer(weights: Sequence[Weight], distributed: bool, ranks: int, rank: int) -> tuple[int, int]:
    """One flat buffer's length with its padding, and the numbers in it whose optimizer state the rank keeps."""
    if not distributed:
        numel = sum(weight.numel for weight in weights)
        return numel, numel
    owned = end = 0
    bucket: list[tuple[int, int]] = []
    bucket_start = 0

    def close() -> int:
        """Pad the bucket, count this rank's stretch of it; returns where the next one starts."""
        nonlocal owned, bucket, bucket_start
        stop = _ceil(bucket[-1][1], math.lcm(ranks, _ALIGN_BUCKET))
        share = (stop - bucket_start) // ranks
        low = bucket_start + rank * share
        owned += sum(max(0, min(e, low + share) - max(s, low)) for s, e in bucket)
        bucket, bucket_start = [], stop
        return stop

    for weight in reversed(weights):
        start = _ceil(end, _ALIGN_START)
        if weight.alone and bucket:
            start = close()
        end = start + weight.numel
        bucket.append((start, end))
        if weight.alone:
            end = close()
    if bucket:
        end = close()
    return end, owned


def _ceil(number: int, multiple: int) -> int:
    return -(-number // multiple) * multiple
