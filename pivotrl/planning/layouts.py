"""Every layout of the given GPUs that could hold a run, in the order of the step times that are predicted."""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

from pivotrl.config import RunConfig
from pivotrl.planning.assumptions import Assumptions
from pivotrl.planning.hardware import Cluster
from pivotrl.planning.plan import Plan, check, make_plan, seconds_of
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
    cluster: Cluster,
    lengths: Lengths,
    assumed: Assumptions,
    engine_sleeps: bool = False,
) -> tuple[list[Candidate], list[Candidate]]:
    """(layouts that fit, fastest first; those that work but do not fit, by what they lack).

    Tried are tensor, pipeline and expert sizes, recomputation and the engines' tensor size; everything else, the cache
    included, stays as configured. Tensor parallelism stays inside a node.
    """
    fitting, lacking = [], []
    for candidate in _variants(config, arch, cluster):
        try:
            check(candidate, arch, cluster.ranks, lengths)
        except ValueError:  # a size that does not divide the model or the ranks: not a layout
            continue
        plan = make_plan(candidate, arch, cluster.ranks, lengths, assumed, engine_sleeps)
        found = Candidate(plan, seconds_of(plan, cluster, assumed).total)
        (fitting if plan.fits(cluster.gpu) else lacking).append(found)
    fitting.sort(key=lambda one: (one.seconds, one.plan.memory.worst[1].total))
    lacking.sort(key=lambda one: one.plan.memory.worst[1].total)
    return fitting, lacking


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
