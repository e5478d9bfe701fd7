"""What a refit moves, over which links, and the least that the links need for it. Names and shapes only."""

import math
from collections import Counter
from dataclasses import dataclass

from pivotrl.config import RunConfig
from pivotrl.planning.hardware import Cluster
from pivotrl.policy.architecture import Architecture
from pivotrl.policy.config import ParallelConfig
from pivotrl.policy.parallel import check_layout
from pivotrl.policy.shards import blocks_of_rank, layouts_of_ranks, tensor_shapes
from pivotrl.rollout.checks import check_engine_layout
from pivotrl.rollout.needs import EngineLayout, needs_of_rank
from pivotrl.rollout.transfers import Link, Transfers, make_transfers

LINKS: tuple[Link, ...] = ("local", "node", "network")
_WHAT = {"local": "copied within a rank", "node": "over NVLink", "network": "between nodes"}


@dataclass(frozen=True, slots=True)
class Traffic:
    """Bytes of one refit."""

    tensors: int
    model: int
    """Of the whole model, once."""
    total: dict[Link, int]
    """Over all ranks."""
    busiest: dict[Link, int]
    """Of the rank that sends, or receives, the most."""

    def floor(self, cluster: Cluster) -> float:
        """Seconds that the busiest link needs at its published rate, all links at work at once."""
        gpu = cluster.gpu
        rates = {"local": gpu.hbm / 2, "node": gpu.nvlink, "network": gpu.network}  # a copy reads and writes
        return max(self.busiest[link] / rates[link] for link in LINKS)


def transfers_of(
    arch: Architecture, parallel: ParallelConfig, engine: EngineLayout, ranks: int, per_node: int, itemsize: int
) -> Transfers:
    """The plan that every rank of such a run makes at its first refit. Raises RefitError as `make_transfers`."""
    layouts = layouts_of_ranks(parallel, ranks)
    owned = [blocks_of_rank(arch, layout) for layout in layouts]
    return make_transfers(owned, [needs_of_rank(arch, engine, rank) for rank in range(ranks)], itemsize, per_node)


def traffic_of(arch: Architecture, plan: Transfers) -> Traffic:
    """Add a plan up."""
    total: Counter = Counter()
    sent: dict[Link, Counter] = {link: Counter() for link in LINKS}
    received: dict[Link, Counter] = {link: Counter() for link in LINKS}
    for move in plan.moves:
        link, size = plan.link(move), plan.nbytes(move)
        total[link] += size
        sent[link][move.owner] += size
        received[link][move.taker] += size
    shapes = tensor_shapes(arch)
    numbers = sum(math.prod(shape) for shape in shapes.values())
    busiest = {link: max([0, *sent[link].values(), *received[link].values()]) for link in LINKS}
    return Traffic(len(shapes), numbers * plan.itemsize, {link: total[link] for link in LINKS}, busiest)


def text(config: RunConfig, arch: Architecture, cluster: Cluster) -> str:
    """A table of a run's refit.

    Raises:
        ValueError: the layout does not fit the model or the ranks.
    """
    parallel, rollout, ranks = config.parallel, config.rollout, cluster.ranks
    check_layout(parallel, arch, ranks)
    inner = {"moe_intermediate_size": arch.expert_ffn} if arch.experts else {"intermediate_size": arch.ffn}
    check_engine_layout(
        rollout,
        ranks,
        positions=arch.max_positions,
        heads=arch.heads,
        kv_heads=arch.kv_heads,
        inner=inner,
        experts=arch.experts,
    )
    itemsize = {"bfloat16": 2, "float32": 4}[config.model.dtype]
    engine = EngineLayout(rollout.tensor, rollout.expert_parallel)
    traffic = traffic_of(arch, transfers_of(arch, parallel, engine, ranks, cluster.gpus_per_node, itemsize))
    placed = f"experts whole on {rollout.tensor}" if rollout.expert_parallel else "experts in columns"
    lines = [
        f"refit: {traffic.tensors} tensors, {traffic.model / 1e9:.2f} GB, from {ranks} ranks "
        f"(tensor {parallel.tensor}, pipeline {parallel.pipeline}, expert {parallel.expert}) to "
        f"{ranks // rollout.tensor} engines of {rollout.tensor} ({placed})",
        f"buffers: 2 of {rollout.refit_buffer_mib} MiB a rank; the most that one message holds is half of one",
        "",
        f"{'':22} {'all ranks, GB':>14} {'busiest rank, GB':>17} {'its floor, s':>13}",
    ]
    rates = {"local": cluster.gpu.hbm / 2, "node": cluster.gpu.nvlink, "network": cluster.gpu.network}
    for link in LINKS:
        lines.append(
            f"{_WHAT[link]:22} {traffic.total[link] / 1e9:14.2f} {traffic.busiest[link] / 1e9:17.2f} "
            f"{traffic.busiest[link] / rates[link]:13.4f}"
        )
    lines.append(f"floor of the refit on {cluster.gpu.name}: {traffic.floor(cluster):.4f} s, at published rates")
    return "\n".join(lines)
