"""Does every rank of a layout hold what it should? From the map alone: names, shapes and coordinates, for any world."""

import math
from collections import Counter, defaultdict
from dataclasses import dataclass

from pivotrl.policy.architecture import Architecture
from pivotrl.policy.config import ParallelConfig
from pivotrl.policy.mapping import Layout, all_tensors, params_of_rank


@dataclass(frozen=True, slots=True)
class MapReport:
    tensors: int
    elements: int
    ranks: int
    held: int
    """Elements that all ranks hold together, padding included."""
    problems: list[str]

    def __str__(self) -> str:
        found = f"{len(self.problems)} are not held as they should" if self.problems else "each is covered exactly once"
        return (
            f"{self.tensors} Hugging Face tensors, {self.elements} elements: {found} "
            f"by the {self.ranks} ranks, a copy for each data-parallel rank"
        )


def layout_of_rank(parallel: ParallelConfig, world_size: int, rank: int) -> Layout:
    """A rank's coordinates. Megatron counts tensor ranks fastest, then data (expert), pipeline stages slowest."""
    stage_ranks = world_size // parallel.pipeline
    return Layout(
        tp_rank=rank % parallel.tensor,
        tp_size=parallel.tensor,
        pp_rank=rank // stage_ranks,
        pp_size=parallel.pipeline,
        vp_size=parallel.virtual_pipeline,
        ep_rank=rank // parallel.expert_tensor % parallel.expert,
        ep_size=parallel.expert,
        etp_rank=rank % parallel.expert_tensor,
        etp_size=parallel.expert_tensor,
    )


def check_map(arch: Architecture, parallel: ParallelConfig, world_size: int) -> MapReport:
    """Count which ranks hold which shard of every tensor.

    A tensor's shards are disjoint by their definition (see `mapping`), so each element is covered exactly once by a
    set of ranks that holds each shard once. Every shard must be held as often as there are such sets: once for each
    data-parallel rank (an expert's: expert-data-parallel), times the tensor ranks for what is not split over them; a
    tied embedding also on the last stage.
    """
    tensors = all_tensors(arch)
    shards: dict[str, Counter[tuple[int, int]]] = defaultdict(Counter)
    problems, held = [], 0
    for rank in range(world_size):
        layout = layout_of_rank(parallel, world_size, rank)
        for param in params_of_rank(arch, layout):
            part, parts = (layout.etp_rank, layout.etp_size) if param.expert else (layout.tp_rank, layout.tp_size)
            for tensor in param.parts:
                if tensors.get(tensor.name) != tensor:
                    problems.append(f"{tensor.name}: rank {rank} holds it, the model has no such tensor")
                shards[tensor.name][(part, parts) if tensor.dim is not None else (0, 1)] += 1
                held += math.prod(tensor.shard_shape(parts))
    for name, tensor in tensors.items():
        expert = ".experts." in name
        parts = parallel.expert_tensor if expert else parallel.tensor
        copies = world_size // (parallel.pipeline * parts * (parallel.expert if expert else 1))
        if arch.tied and parallel.pipeline > 1 and name == "model.embed_tokens.weight":
            copies *= 2
        expected = (
            {(part, parts): copies for part in range(parts)} if tensor.dim is not None else {(0, 1): copies * parts}
        )
        if shards[name] != expected:
            problems.append(f"{name}: its shards are held {dict(shards[name])} times, should be {expected}")
    total = sum(math.prod(tensor.shape) for tensor in tensors.values())
    return MapReport(len(tensors), total, world_size, held, problems)
