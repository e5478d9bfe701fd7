"""How the ranks share the model: checking a layout, and Megatron's process groups for it."""

import math
import os
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import torch.distributed as dist

from pivotrl.policy import device
from pivotrl.policy.architecture import Architecture
from pivotrl.policy.config import ParallelConfig


def check_layout(parallel: ParallelConfig, arch: Architecture, world_size: int) -> None:
    """Stop if the layout does not fit the model or the number of ranks. Pure.

    Raises:
        ValueError: it names the configuration's key, both numbers, and values that would do.
    """
    tensor, stages, chunks = parallel.tensor, parallel.pipeline, parallel.virtual_pipeline
    expert, expert_tensor = parallel.expert, parallel.expert_tensor

    beside = {  # ranks that the other sizes multiply to
        "tensor": stages,
        "pipeline": math.lcm(tensor, expert * expert_tensor),
        "expert": expert_tensor * stages,
        "expert_tensor": expert * stages,
    }

    def divide(key: str, **numbers: int) -> None:
        """The value of `key` must divide each number, which is a key of config.json."""
        value, common = getattr(parallel, key), math.gcd(*numbers.values())
        for name, number in numbers.items():
            if number % value:
                raise ValueError(
                    f"parallel.{key} is {value}, which does not divide {name} {number}: "
                    f"use {_divisors(common, world_size, beside[key])}"
                )

    split_by_tensor = {
        "num_attention_heads": arch.heads,
        "num_key_value_heads": arch.kv_heads,
    }
    divide("pipeline", num_hidden_layers=arch.layers)
    if chunks > 1 and stages == 1:
        raise ValueError(
            f"parallel.virtual_pipeline is {chunks} with parallel.pipeline 1, where no stages take turns: "
            "use 1, or raise parallel.pipeline"
        )
    if arch.layers % (stages * chunks):
        per_stage = arch.layers // stages
        raise ValueError(
            f"parallel.virtual_pipeline is {chunks}, which does not divide the {per_stage} layers of a stage "
            f"(num_hidden_layers {arch.layers}, parallel.pipeline {stages}): use {_divisors(per_stage)}"
        )
    if arch.experts:
        divide("tensor", **split_by_tensor)
        divide("expert", num_experts=arch.experts)
        divide("expert_tensor", moe_intermediate_size=arch.expert_ffn)
    else:
        divide("tensor", **split_by_tensor, intermediate_size=arch.ffn)
        for key, value in (("expert", expert), ("expert_tensor", expert_tensor)):
            if value > 1:
                raise ValueError(f"parallel.{key} is {value}, but {arch.name} has no experts: use 1")
    if parallel.sequence_parallel and tensor == 1:
        raise ValueError("parallel.sequence is true with parallel.tensor 1: leave it unset, or raise parallel.tensor")
    if arch.experts and tensor > 1 and not parallel.sequence_parallel:
        raise ValueError(
            f"parallel.sequence is false, but an MoE model at parallel.tensor {tensor} needs it: leave it unset"
        )
    for keys, ranks in (
        (("tensor", "pipeline"), tensor * stages),
        (("expert_tensor", "expert", "pipeline"), expert_tensor * expert * stages),
    ):
        if world_size % ranks:
            product = " x ".join(f"parallel.{key} {getattr(parallel, key)}" for key in keys)
            raise ValueError(
                f"{product} needs {ranks} ranks or a multiple of it, and {world_size} were started: "
                f"start as many (--ranks {ranks}), or lower one of them"
            )


def _divisors(number: int, world_size: int | None = None, beside: int = 1) -> str:
    """The divisors of a number; with a number of ranks, those of them that these allow, where that leaves a choice."""
    every = [d for d in range(1, number + 1) if number % d == 0]
    allowed = [d for d in every if world_size and world_size % (d * beside) == 0]
    if len(allowed) in (0, 1, len(every)):
        return ", ".join(map(str, every))
    return f"{', '.join(map(str, allowed))} (on {world_size} ranks)"


@dataclass(frozen=True, slots=True)
class World:
    """This rank's place, and the groups it talks to."""

    rank: int
    world_size: int
    tp_rank: int
    tp_size: int
    pp_rank: int
    pp_size: int
    vp_size: int
    """Chunks of layers on each pipeline stage."""
    dp_rank: int
    dp_size: int
    ep_rank: int
    ep_size: int
    etp_rank: int
    etp_size: int
    tp_group: Any
    pp_group: Any
    dp_group: Any
    model_group: Any
    """Ranks that hold one copy of everything but the experts: rank pp * TP + tp in it."""
    expert_model_group: Any
    """Ranks that hold one copy of the experts: rank (pp * EP + ep) * ETP + etp in it."""
    object_group: Any
    """Gloo group of all ranks, for Python objects."""

    @property
    def is_last_stage(self) -> bool:
        return self.pp_rank == self.pp_size - 1


_object_groups: dict[str, Any] = {}


def initialize(parallel: ParallelConfig, seed: int) -> World:
    """Join torch.distributed (alone, where torchrun started no ranks), make Megatron's groups and seed its generators.

    A process group that exists already is used as it is. Check the layout first with `check_layout`.
    """
    device.prepare()
    from megatron.core import parallel_state, tensor_parallel

    backend, patience = device.current().backend, timedelta(seconds=parallel.timeout_seconds)
    if not dist.is_initialized():
        if "RANK" in os.environ:
            dist.init_process_group(backend, timeout=patience)
        else:
            dist.init_process_group(backend, store=dist.HashStore(), rank=0, world_size=1)
    with device.scope():
        parallel_state.initialize_model_parallel(
            tensor_model_parallel_size=parallel.tensor,
            pipeline_model_parallel_size=parallel.pipeline,
            virtual_pipeline_model_parallel_size=parallel.virtual_pipeline if parallel.virtual_pipeline > 1 else None,
            expert_model_parallel_size=parallel.expert,
            expert_tensor_parallel_size=parallel.expert_tensor,
            create_gloo_process_groups=True,
            distributed_timeout_minutes=parallel.timeout_seconds / 60,
        )
        tensor_parallel.model_parallel_cuda_manual_seed(seed)
    return current_world(patience)


def current_world(patience: timedelta | None = None) -> World:
    """The place and groups that `initialize` made, read from Megatron."""
    from megatron.core import parallel_state as ps

    world = World(
        rank=dist.get_rank(),
        world_size=dist.get_world_size(),
        tp_rank=ps.get_tensor_model_parallel_rank(),
        tp_size=ps.get_tensor_model_parallel_world_size(),
        pp_rank=ps.get_pipeline_model_parallel_rank(),
        pp_size=ps.get_pipeline_model_parallel_world_size(),
        vp_size=ps.get_virtual_pipeline_model_parallel_world_size() or 1,
        dp_rank=ps.get_data_parallel_rank(),
        dp_size=ps.get_data_parallel_world_size(),
        ep_rank=ps.get_expert_model_parallel_rank(),
        ep_size=ps.get_expert_model_parallel_world_size(),
        etp_rank=ps.get_expert_tensor_parallel_rank(),
        etp_size=ps.get_expert_tensor_parallel_world_size(),
        tp_group=ps.get_tensor_model_parallel_group(),
        pp_group=ps.get_pipeline_model_parallel_group(),
        dp_group=ps.get_data_parallel_group(),
        model_group=ps.get_model_parallel_group(),
        expert_model_group=ps.get_expert_tensor_model_pipeline_parallel_group(),
        object_group=_object_group(patience),
    )
    assert dist.get_rank(world.model_group) == world.pp_rank * world.tp_size + world.tp_rank
    place = (world.pp_rank * world.ep_size + world.ep_rank) * world.etp_size + world.etp_rank
    assert dist.get_rank(world.expert_model_group) == place
    return world


def _object_group(patience: timedelta | None) -> Any:
    if dist.get_backend() == "gloo":
        return dist.group.WORLD
    if "world" not in _object_groups:
        _object_groups["world"] = dist.new_group(backend="gloo", timeout=patience)
    return _object_groups["world"]


def destroy() -> None:
    """Forget Megatron's groups, so that another layout can be made; torch.distributed stays up."""
    from megatron.core import parallel_state

    parallel_state.destroy_model_parallel()
