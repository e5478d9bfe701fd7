"""Every layout of the given GPUs that could hold a run, in the order of the step times that are predicted."""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pivotrl.config import RunConfig
from pivotrl.planning.assumptions import Assumptions
from pivotrl.planning.hardware import Cluster
from pivotrl.planning.plan import Plan, check, make_plan, seconds_of
from pivotrl.planning.sizes import with_context
from pivotrl.planning.workload import Lengths
from pivotrl.policy.architecture import Architecture


@dataclass(frozen=True, slots=True)
class Candidate:
    plan: Plan
    seconds: float
    """Of a step."""

    @property
    def overrides(self) -> str:
        """The keys that make it of the configuration, to paste behind a command."""
        config = self.plan.config
        parallel = config.parallel
        return (
            f"parallel.tensor={parallel.tensor} parallel.pipeline={parallel.pipeline} parallel.expert={parallel.expert}"
            f" model.recompute={config.model.recompute} rollout.tensor={config.rollout.tensor}"
        )


def rank_layouts(
    config: RunConfig,
    arch: Architecture,
    clusters: Sequence[Cluster],
    lengths: Lengths,
    assumed: Assumptions,
) -> dict[str, tuple[list[Candidate], list[Candidate]]]:
    """Layouts that fit, fastest first, and those that work but do not fit, the nearest first; by the GPU's name.

    Tried are tensor, pipeline and expert sizes, recomputation and the engines' tensor size; everything else stays as
    configured, and a cache that is unset is what each layout leaves on the smallest GPU. Tensor parallelism stays
    inside a node.

    Args:
        clusters: the same nodes with one kind of GPU each.
    """
    plans, memory = [], min(cluster.gpu.memory for cluster in clusters)
    for candidate in _variants(config, arch, clusters[0]):
        try:
            check(with_context(candidate, arch, "cuda"), arch, clusters[0].ranks, lengths)
        except ValueError:  # a size that does not divide the model or the ranks: not a layout
            continue
        plans.append(make_plan(candidate, arch, clusters[0].ranks, lengths, assumed, memory))
    return {cluster.gpu.name: _ranked(plans, cluster, assumed) for cluster in clusters}


def _ranked(plans: Sequence[Plan], cluster: Cluster, assumed: Assumptions) -> tuple[list[Candidate], list[Candidate]]:
    found = [Candidate(plan, seconds_of(plan, cluster, assumed).total) for plan in plans]
    fit = [one for one in found if one.plan.fits(cluster.gpu)]
    rest = [one for one in found if not one.plan.fits(cluster.gpu)]
    fit.sort(key=lambda one: (one.seconds, one.plan.memory.worst[1].total))
    rest.sort(key=lambda one: one.plan.memory.worst[1].total)
    return fit, rest


def _variants(config: RunConfig, arch: Architecture, cluster: Cluster) -> Iterator[RunConfig]:
    ranks, inside = cluster.ranks, _powers(cluster.gpus_per_node)
    experts = [size for size in _powers(ranks) if arch.experts and arch.experts % size == 0] or [1]
    stages = [size for size in _powers(ranks) if arch.layers % size == 0]
    for tensor, pipeline, expert, recompute, engine in itertools.product(
        inside, stages, experts, ("none", "selective", "full"), inside
    ):
        layout = {"tensor": tensor, "pipeline": pipeline, "expert": expert, "virtual_pipeline": 1}
        yield config.model_copy(
            update={
                "parallel": config.parallel.model_copy(update=layout),
                "model": config.model.model_copy(update={"recompute": recompute}),
                "rollout": config.rollout.model_copy(update={"tensor": engine}),
            }
        )


def _powers(largest: int) -> list[int]:
    return [size for size in (2**n for n in range(largest.bit_length())) if largest % size == 0]
