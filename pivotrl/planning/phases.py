"""The memory of a rank in each phase of a step: what is alive at once, by name.

The order is that of `pivotrl/handover.py`: with `rollout.sleep`, which is on where it is unset (the plan is of GPUs),
the engine's weights and its cache are given up while the policy trains, and its weights come back for the refit, the
cache after it. `training.offload` moves gradients and optimizer away while the engine is awake, the refit included; a
checkpoint is then written as the policy trains, without the engine.
"""

from dataclasses import dataclass, fields

from pivotrl.config import RunConfig
from pivotrl.planning import activations
from pivotrl.planning.assumptions import Assumptions
from pivotrl.planning.hardware import GIB
from pivotrl.planning.shards import data_parallel
from pivotrl.planning.static import TrainerBytes, element_size, engine_weight_bytes, trainer_bytes
from pivotrl.planning.workload import Lengths, log_prob_passes, work_of
from pivotrl.policy.architecture import Architecture

PHASES = ("rollout", "log-prob", "train", "refit", "save")


@dataclass(frozen=True, slots=True)
class Ledger:
    """Bytes of one rank in one phase."""

    weights: int = 0
    """The policy's, and where objective.beta > 0 the reference's."""
    gradients: int = 0
    optimizer: int = 0
    activations: int = 0
    engine: int = 0
    """The engine's weights."""
    kv_cache: int = 0
    buffers: int = 0
    """CUDA context, NCCL, the engine's workspace, a refit's buffers, and what the allocator loses."""

    @property
    def total(self) -> int:
        return sum(getattr(self, field.name) for field in fields(self))

    def parts(self) -> dict[str, int]:
        """Bytes by name."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def largest(self, count: int = 3) -> str:
        """The largest parts in words."""
        ranked = sorted(self.parts().items(), key=lambda part: -part[1])[:count]
        return ", ".join(f"{name.replace('_', ' ')} {size / GIB:.1f}" for name, size in ranked)


@dataclass(frozen=True, slots=True)
class RankMemory:
    """A rank of one pipeline stage."""

    stage: int
    held: TrainerBytes
    phases: dict[str, Ledger]
    """By the name of the phase; those that the run does not have are left out."""

    @property
    def worst(self) -> tuple[str, Ledger]:
        """The phase that needs most."""
        return max(self.phases.items(), key=lambda item: item[1].total)


def memory_of(
    config: RunConfig,
    arch: Architecture,
    ranks: int,
    lengths: Lengths,
    stage: int,
    assumed: Assumptions,
) -> RankMemory:
    """What a rank of a pipeline stage holds in each phase; no cache where `rollout.kv_cache_gib` is unset.

    A micro-batch is taken to be as long as `training.micro_batch_tokens` or `rollout.max_model_len` allows, whichever
    is more: one sequence that long may come, whatever the mean lengths are.
    """
    element, parallel = element_size(config.model.dtype), config.parallel
    held = trainer_bytes(config, arch, ranks, stage)
    data_ranks, _ = data_parallel(parallel, ranks)
    work = work_of(config, arch, lengths, data_ranks)
    longest = max(config.training.micro_batch_tokens, config.rollout.max_model_len)
    typical = max(work.rounds, key=lambda r: r.tokens)
    row = activations.with_row(
        activations.Row(typical.tokens, typical.responses, work.packing),
        -(-longest // parallel.tensor) * parallel.tensor,
    )
    backend = activations.gpu(element)
    shape = (arch, parallel, element, backend, row)
    passes = {
        "train": activations.activation_bytes(
            *shape, config.model.recompute, stage, len(work.rounds), assumed.expert_imbalance
        ).peak,
        "log-prob": activations.forward_bytes(*shape, assumed.expert_imbalance).peak,
    }
    copies = 1 + int(config.objective.beta > 0)
    engine = engine_weight_bytes(arch, config.rollout.tensor, element)
    cache = int((config.rollout.kv_cache_gib or 0) * GIB)
    phases = {}
    for phase in PHASES:
        if phase == "log-prob" and not log_prob_passes(config):
            continue
        away = phase in ("rollout", "refit") and config.training.offload
        swapped = phase == "log-prob" and config.objective.beta > 0  # the policy waits while its reference scores
        awake = phase in phases_with_cache(config)
        phases[phase] = _with_buffers(
            Ledger(
                weights=held.weights * (copies + swapped),
                gradients=0 if away else held.gradients,
                optimizer=0 if away else held.optimizer,
                activations=passes.get(phase, 0),
                engine=engine if awake or phase == "refit" else 0,
                kv_cache=cache if awake else 0,
            ),
            assumed,
            2 * config.rollout.refit_buffer_mib * 2**20 if phase == "refit" else 0,
        )
    return RankMemory(stage, held, phases)


def phases_with_cache(config: RunConfig) -> tuple[str, ...]:
    """The phases in which the engine's cache is there."""
    if config.rollout.sleep is False:
        return PHASES
    return ("rollout",) if config.training.offload else ("rollout", "save")


def _with_buffers(ledger: Ledger, assumed: Assumptions, refit: int) -> Ledger:
    fixed = (assumed.context_gib + assumed.nccl_gib + assumed.engine_gib) * GIB + refit
    # the cache is one allocation of the engine's, which loses nothing
    lost = assumed.fragmentation * (ledger.total - ledger.kv_cache)
    return Ledger(**{**ledger.parts(), "buffers": round(fixed + lost)})


def host_bytes(config: RunConfig, held: TrainerBytes) -> int:
    """The CPU's memory that one rank pins: the optimizer's share that lives there with its gradients, and what
    `training.offload` moves there."""
    living = held.optimizer_on_host + round(4 * held.trained * config.optimizer.offload)
    return living + (held.optimizer if config.training.offload else 0)
