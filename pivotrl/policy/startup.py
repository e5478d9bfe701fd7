"""What a run is about to do: refused where it cannot, and said in a few plain lines where it can."""

from typing import TYPE_CHECKING

import torch

from pivotrl.config import RunConfig
from pivotrl.objective import fused
from pivotrl.policy import device
from pivotrl.policy.architecture import Architecture
from pivotrl.policy.optimizer import check_optimizer

if TYPE_CHECKING:
    from pivotrl.policy.step import Policy

_NO_FUSION = "no Transformer Engine, no kernel of NVIDIA Apex"
_LIBRARIES = {"torch": "PyTorch", "apex": "NVIDIA Apex", "transformer_engine": "Transformer Engine"}


def check(config: RunConfig, arch: Architecture) -> None:
    """Stop where the model or this device cannot do what `model` and `optimizer` ask for. Pure.

    Raises:
        ValueError: it names the key, what was found, and what to write instead.
    """
    check_optimizer(config.optimizer, config.model)
    if config.model.aux_loss and not arch.experts:
        raise ValueError(f"model.aux_loss is {config.model.aux_loss:g}, but {arch.name} has no experts: set it 0")


def report(policy: "Policy") -> list[str]:
    """A line each for device, layout, precision, memory, optimizer and kernels of this rank's policy."""
    config, world, arch, here = policy.config, policy.world, policy.arch, device.current()
    model, chosen, training = config.model, config.optimizer, config.training
    half = model.dtype == "bfloat16"
    sequence = " with sequence parallelism" if config.parallel.sequence_parallel else ""
    chunks = f" x {world.vp_size} chunks" if world.vp_size > 1 else ""
    main = "float32 main weights" if half else "no main weights besides"
    moments = "bfloat16" if chosen.precision_aware else "float32"
    sharded = "sharded over data-parallel ranks" if chosen.distributed else "whole on every data-parallel rank"
    router = f", router {'frozen' if model.freeze_router else 'trained'}" if arch.experts else ""
    balance = f", aux_loss {model.aux_loss:g}" if model.aux_loss else ""
    attention = type(policy.model[0].decoder.layers[0].self_attention.core_attention).__name__
    objective = "fused CUDA kernel" if fused.runs_on(torch.zeros(0, device=here.torch_device)) else "plain PyTorch"
    fusion = here.gradient_fusion
    return [
        f"device: {here.kind} over {here.backend}, {world.world_size} rank{'s' if world.world_size > 1 else ''}",
        f"layout: TP {world.tp_size}{sequence}, PP {world.pp_size}{chunks}, EP {world.ep_size}, ETP {world.etp_size}, "
        f"DP {world.dp_size}",
        f"precision: {model.dtype} weights, {main}, float32 gradients, {moments} moments{router}{balance}",
        f"memory: recompute {model.recompute}, packing {training.packing}, gradients and optimizer "
        f"{'move to the host' if training.offload else 'stay'} while the engine samples",
        f"optimizer: Adam of {_LIBRARIES[here.adam]}, {sharded}"
        + (f", {chosen.offload:.0%} of it on the CPU" if chosen.offload else ""),
        "gradient accumulation: " + (f"fused by {_LIBRARIES[fusion]}" if fusion else f"not fused ({_NO_FUSION})"),
        f"kernels: attention {attention}, objective {objective}",
    ]
