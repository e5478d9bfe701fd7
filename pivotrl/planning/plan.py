"""A run on a cluster: whether it can work, what it needs, how long a step takes."""

from dataclasses import dataclass

from pivotrl.config import RunConfig
from pivotrl.planning.assumptions import Assumptions
from pivotrl.planning.hardware import GIB, H100, Cluster, Gpu
from pivotrl.planning.phases import RankMemory, memory_of
from pivotrl.planning.rollout_time import Rollout, rollout_of
from pivotrl.planning.sizes import least_cache_gib, with_cache, with_context
from pivotrl.planning.static import kv_tokens
from pivotrl.planning.step_time import (
    log_prob_seconds,
    offload_seconds,
    refit_seconds,
    save_seconds,
    train_parts,
)
from pivotrl.planning.workload import Lengths, check_lengths
from pivotrl.policy.architecture import Architecture
from pivotrl.policy.parallel import check_layout
from pivotrl.rollout.checks import check_engine_layout

MOST_RANKS = 8_192
MOST_SAMPLES = 32_768
MOST_CACHE_GIB = 10_000
_SHRINKS_WITH = {
    "weights": "parallel.expert, tensor or pipeline",
    "gradients": "parallel.expert, tensor or pipeline",
    "optimizer": "more nodes, or optimizer.offload",
    "activations": "model.recompute, or fewer training.micro_batch_tokens",
    "engine": "rollout.tensor",
    "kv_cache": "rollout.kv_cache_gib",
}


@dataclass(frozen=True, slots=True)
class Seconds:
    """Of one step on one kind of GPU."""

    rollout: Rollout
    train: dict[str, float]
    """Its parts."""
    phases: dict[str, float]
    """By phase, `train` as the sum of its parts."""

    @property
    def total(self) -> float:
        return sum(self.phases.values())


@dataclass(frozen=True, slots=True)
class Plan:
    config: RunConfig
    arch: Architecture
    ranks: int
    lengths: Lengths
    memory: RankMemory
    """Of the pipeline stage that needs most."""

    @property
    def fullest_rank(self) -> str:
        """The rank whose memory it is, in words."""
        stage, stages = self.memory.stage, self.config.parallel.pipeline
        if stages == 1:
            return "a rank"
        if stage in (0, stages - 1):
            return f"a rank of the {'last' if stage else 'first'} pipeline stage"
        return f"a rank of pipeline stage {stage + 1} of {stages}"

    def fits(self, gpu: Gpu) -> bool:
        """Whether the fullest rank's memory is within the GPU's."""
        return self.memory.worst[1].total <= gpu.memory

    def refusal(self, gpu: Gpu) -> str:
        """Why it does not fit, and what would."""
        phase, ledger = self.memory.worst
        lacking = ledger.total - gpu.memory
        cache = (ledger.kv_cache - lacking) // GIB
        largest = max(_SHRINKS_WITH, key=lambda part: ledger.parts()[part])
        remedy = f"The first shrinks with {_SHRINKS_WITH[largest]}"
        if ledger.kv_cache and cache >= 1:
            remedy = f"It would fit with rollout.kv_cache_gib {cache:.0f}"
        return (
            f"{self.fullest_rank} needs {ledger.total / GIB:.1f} GiB in {phase}, an {gpu.name} has "
            f"{gpu.memory / GIB:.1f}. Largest parts: {ledger.largest()}. {remedy}"
        )


def check(config: RunConfig, arch: Architecture, ranks: int, lengths: Lengths) -> None:
    """Stop where the run cannot work on any GPU.

    Raises:
        ValueError: it names the key, the number that breaks it, and values that would do.
    """
    if config.model.dtype != "bfloat16":
        raise ValueError(
            f"model.dtype is {config.model.dtype}, and the plan knows the GPUs' bfloat16 rate only: "
            "add model.dtype=bfloat16"
        )
    check_amounts(config, ranks)
    check_layout(config.parallel, arch, ranks)
    check_engine_layout(
        config.rollout,
        ranks,
        positions=arch.max_positions,
        heads=arch.heads,
        kv_heads=arch.kv_heads,
        inner={"moe_intermediate_size": arch.expert_ffn} if arch.experts else {"intermediate_size": arch.ffn},
        experts=arch.experts,
    )
    check_lengths(config, lengths)
    cache = config.rollout.kv_cache_gib
    if cache is not None and (tokens := kv_tokens(config, arch)) < config.rollout.max_model_len:
        raise ValueError(
            f"rollout.kv_cache_gib is {cache:g}, which holds {tokens:,} tokens, and one sequence "
            f"may have rollout.max_model_len {config.rollout.max_model_len:,}: raise the first, or lower the second"
        )


def check_amounts(config: RunConfig, ranks: int) -> None:
    """Stop where a number is far from any run's, and planning would take hours for it.

    Raises:
        ValueError: it names the key and both numbers.
    """
    training, cache = config.training, config.rollout.kv_cache_gib
    samples = training.pivots_per_step * training.group_size
    if ranks > MOST_RANKS:
        raise ValueError(
            f"--nodes and --gpus-per-node make {ranks:,} ranks, above the {MOST_RANKS:,} that can be planned"
        )
    if samples > MOST_SAMPLES:
        raise ValueError(
            f"training.pivots_per_step {training.pivots_per_step:,} x training.group_size {training.group_size:,} are "
            f"{samples:,} samples a step, above the {MOST_SAMPLES:,} that can be planned: lower one of them"
        )
    if cache is not None and cache > MOST_CACHE_GIB:
        raise ValueError(f"rollout.kv_cache_gib is {cache:g}, above the {MOST_CACHE_GIB:,} that any GPU has: lower it")


def make_plan(
    config: RunConfig,
    arch: Architecture,
    ranks: int,
    lengths: Lengths,
    assumed: Assumptions,
    memory: int = H100.memory,
) -> Plan:
    """Memory of the pipeline stage that needs most: the first or the last.

    Args:
        memory: bytes of the smallest GPU that the run may get. Where `rollout.kv_cache_gib` is unset, the cache is what
            is left of them, and at least one sequence's.

    Raises:
        ValueError: as `check`.
    """
    config = with_context(config, arch, "cuda")
    check(config, arch, ranks, lengths)
    if config.rollout.kv_cache_gib is None:
        config = with_cache(config, arch, ranks, memory, lengths, assumed, least_cache_gib(config, arch))
    stages = sorted({0, config.parallel.pipeline - 1})
    memories = [memory_of(config, arch, ranks, lengths, stage, assumed) for stage in stages]
    return Plan(config, arch, ranks, lengths, max(memories, key=lambda memory: memory.worst[1].total))


def seconds_of(plan: Plan, cluster: Cluster, assumed: Assumptions) -> Seconds:
    """Seconds of one step of a plan on this cluster."""
    config, arch, lengths = plan.config, plan.arch, plan.lengths
    rollout = rollout_of(config, arch, cluster, lengths, assumed)
    train = train_parts(config, arch, cluster, lengths, assumed)
    phases = {
        "rollout": rollout.seconds,
        "verify": assumed.verify_seconds,
        "log-prob": log_prob_seconds(config, arch, cluster, lengths, assumed),
        "train": sum(train.values()) + offload_seconds(config, arch, cluster, assumed),
        "refit": refit_seconds(config, arch, cluster, assumed),
        "save": save_seconds(config, arch, cluster, assumed),
    }
    return Seconds(rollout, train, phases)
