"""What a configuration leaves to the plan: the engine's context, whether it sleeps, and its cache.

The context (`rollout.max_model_len`) follows from the configuration and the model alone, so it is the same for pivot
selection, training and tools/plan.py on any machine. The cache follows from the GPU's memory: what no phase of the plan
that has a cache needs for anything else, less a margin for what the plan may be off. On a CPU it is 1 GiB, less where
all sequences together cannot fill it, more where one needs it.
"""

import math

from pivotrl.config import RunConfig
from pivotrl.planning.assumptions import Assumptions
from pivotrl.planning.hardware import GIB
from pivotrl.planning.phases import memory_of, phases_with_cache
from pivotrl.planning.static import element_size, engine_weight_bytes, kv_bytes_per_token
from pivotrl.planning.workload import Lengths, lengths_of
from pivotrl.policy import device
from pivotrl.policy.architecture import Architecture
from pivotrl.rollout.graphs import capture_sizes

_ON_A_CPU = 1.0
_STEPS = 64
"""Parts of a GiB in which a cache is given."""
_SLACK = 1.25
"""vLLM rounds a sequence up to whole blocks, and keeps one block for itself."""


def with_context(config: RunConfig, arch: Architecture, kind: str) -> RunConfig:
    """The configuration with `rollout.max_model_len` and `rollout.sleep` set.

    Args:
        kind: "cpu" or "cuda".

    Raises:
        ValueError: the context that follows leaves no room for a prompt.
    """
    rollout = config.rollout
    longest, sleep = rollout.max_model_len, rollout.sleep
    if longest is None:
        longest = min(arch.max_positions, config.training.micro_batch_tokens)
        if rollout.max_new_tokens >= longest:
            raise ValueError(
                f"rollout.max_new_tokens is {rollout.max_new_tokens}, and rollout.max_model_len, which is unset, "
                f"follows as {longest} (training.micro_batch_tokens, or the model's positions): set it, or lower the "
                "first"
            )
    return _with(config, max_model_len=longest, sleep=kind == "cuda" if sleep is None else sleep)


def for_session(config: RunConfig, arch: Architecture, ranks: int) -> RunConfig:
    """The configuration with a cache beside this rank's policy, on this process's device.

    Args:
        config: of `with_context`.

    Raises:
        ValueError: the GPU has no room for a cache of one sequence.
    """
    memory = device.memory_bytes()
    if config.rollout.kv_cache_gib is not None:
        return config
    if memory is None:
        return _on_a_cpu(config, arch)
    return with_cache(config, arch, ranks, memory, lengths_of(config), Assumptions())


def for_engine_alone(config: RunConfig) -> RunConfig:
    """The configuration for an engine without a policy beside it, as in pivot selection, on this process's device: with
    context and cache, and an engine that does not sleep.

    Raises:
        ValueError: as `Architecture.from_hf`, `with_context` and `for_session`.
    """
    arch, here, memory = Architecture.from_hf(config.model.path), device.current(), device.memory_bytes()
    asked = config.rollout.sleep and here.kind == "cpu"  # which checks.check_engine refuses
    config = _with(with_context(config, arch, here.kind), **({} if asked else {"sleep": False}))
    if config.rollout.kv_cache_gib is not None:
        return config
    if memory is None:
        return _on_a_cpu(config, arch)
    assumed, element = Assumptions(), element_size(config.model.dtype)
    weights = engine_weight_bytes(arch, config.rollout.tensor, element) * (1 + assumed.fragmentation)
    fixed = (assumed.context_gib + assumed.nccl_gib + assumed.engine_gib + assumed.margin_gib) * GIB
    return _given(config, arch, int(memory - fixed - weights), memory, None)


def with_cache(
    config: RunConfig,
    arch: Architecture,
    ranks: int,
    memory: int,
    lengths: Lengths,
    assumed: Assumptions,
    least: float | None = None,
) -> RunConfig:
    """The configuration with the cache that a GPU has room for beside the policy, whose fullest stage decides.

    Args:
        config: of `with_context`, without a cache.
        memory: bytes of the GPU.
        least: GiB to take where there is no room for one sequence; unset, that is an error.

    Raises:
        ValueError: there is no room for one sequence.
    """
    stages = sorted({0, config.parallel.pipeline - 1})
    ledgers = [memory_of(config, arch, ranks, lengths, stage, assumed).phases for stage in stages]
    needed = max(one.total for phases in ledgers for name, one in phases.items() if name in phases_with_cache(config))
    return _given(config, arch, round(memory - needed - assumed.margin_gib * GIB), memory, least)


def as_in(settled: RunConfig, config: RunConfig) -> RunConfig:
    """The configuration of another training with the same engine: what it leaves unset is as in `settled`."""
    unset = [key for key in ("max_model_len", "kv_cache_gib", "sleep") if getattr(config.rollout, key) is None]
    return _with(config, **{key: getattr(settled.rollout, key) for key in unset})


def least_cache_gib(config: RunConfig, arch: Architecture) -> float:
    """GiB that hold one sequence of `rollout.max_model_len`."""
    return _up(_SLACK * _of_one(config, arch) / GIB)


def engine_lines(config: RunConfig, asked: RunConfig) -> list[str]:
    """What the engine of a run is given, in a line or two for its start.

    Args:
        config: with everything set.
        asked: as the user wrote it.
    """
    rollout, written = config.rollout, asked.rollout
    planned = [key for key in ("max_model_len", "kv_cache_gib") if getattr(written, key) is None]
    sleeps = "sleeps while the policy trains" if rollout.sleep else "stays while the policy trains"
    lines = [
        f"engine: {rollout.max_model_len:,} tokens of context, {rollout.kv_cache_gib:g} GiB of cache a rank"
        + (f" ({' and '.join(planned)} from the plan)" if planned else "")
        + f", {sleeps}"
    ]
    if device.current().kind == "cuda":
        graphs = capture_sizes(rollout.max_num_seqs, config.training.group_size)
        lines.append(f"CUDA graphs: of {', '.join(map(str, graphs))} sequences")
    return lines


def _on_a_cpu(config: RunConfig, arch: Architecture) -> RunConfig:
    every = config.rollout.max_num_seqs * _of_one(config, arch) / GIB
    return _with(config, kv_cache_gib=max(least_cache_gib(config, arch), _up(min(_ON_A_CPU, every))))


def _given(config: RunConfig, arch: Architecture, room: int, memory: int, least: float | None) -> RunConfig:
    """With the room as the cache, but no more than all sequences can fill."""
    one, every = least_cache_gib(config, arch), config.rollout.max_num_seqs * _of_one(config, arch) / GIB
    cache = math.floor(min(room / GIB, _up(_SLACK * every)) * _STEPS) / _STEPS
    if cache < one and least is None:
        raise ValueError(
            f"rollout.kv_cache_gib is unset, and the plan leaves {max(0, room) / GIB:.1f} of this GPU's "
            f"{memory / GIB:.1f} GiB for it, where one sequence of rollout.max_model_len "
            f"{config.rollout.max_model_len:,} takes {one:.1f}: see tools/plan.py for what takes the rest; "
            "rollout.tensor, rollout.sleep or training.offload make room"
        )
    return _with(config, kv_cache_gib=cache if cache >= one else least)


def _of_one(config: RunConfig, arch: Architecture) -> int:
    """Bytes of one sequence of `rollout.max_model_len`."""
    per_token = kv_bytes_per_token(arch, config.rollout.tensor, element_size(config.model.dtype))
    return config.rollout.max_model_len * per_token


def _up(gib: float) -> float:
    return math.ceil(gib * _STEPS) / _STEPS


def _with(config: RunConfig, **values: object) -> RunConfig:
    return config.model_copy(update={"rollout": config.rollout.model_copy(update=values)})
