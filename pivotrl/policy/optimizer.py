"""Megatron's gradient buffers and optimizer around a model, and the learning rate of a step."""

from typing import Any

import torch

from pivotrl.policy import device
from pivotrl.policy.chunks import Chunks
from pivotrl.policy.config import ModelConfig, OptimizerConfig


def make_trainable(chunks: Chunks, chosen: OptimizerConfig, kept_as: ModelConfig) -> tuple[list[Any], Any]:
    """Wrap each chunk in Megatron's DDP, with float32 gradients, and make Adam on float32 main weights for all.

    Enter `device.scope()` around it. Gradients are summed over micro-batches and data-parallel ranks, not averaged: the
    denominator of the loss is the objective's.

    Returns:
        (the wrapped chunks, Megatron's optimizer).
    """
    from megatron.core.distributed import (
        DistributedDataParallel,
        DistributedDataParallelConfig,
        finalize_model_grads,
    )
    from megatron.core.optimizer import OptimizerConfig as MegatronConfig
    from megatron.core.optimizer import get_megatron_optimizer, get_standard_config_overrides
    from megatron.core.transformer.module import Float16Module

    half = kept_as.dtype == "bfloat16"
    model_config = chunks[0].config  # one for all chunks
    model_config.calculate_per_token_loss = True
    model_config.finalize_model_grads_func = lambda model, num_tokens, **groups: finalize_model_grads(model, **groups)
    wrapped = [
        DistributedDataParallel(
            model_config,
            DistributedDataParallelConfig(grad_reduce_in_fp32=True, use_distributed_optimizer=chosen.distributed),
            Float16Module(model_config, model) if half else model,
        )
        for model in chunks
    ]
    for ddp in wrapped:
        ddp.broadcast_params()
    config = MegatronConfig(
        optimizer="adam",
        lr=chosen.lr,
        weight_decay=chosen.weight_decay,
        adam_beta1=chosen.beta1,
        adam_beta2=chosen.beta2,
        adam_eps=chosen.eps,
        clip_grad=chosen.clip_grad,
        bf16=half,
        params_dtype=torch.bfloat16 if half else torch.float32,
        use_distributed_optimizer=chosen.distributed,
        **_memory_savers(chosen),
    )
    optimizer = get_megatron_optimizer(config, wrapped, config_overrides=get_standard_config_overrides(config))
    model_config.grad_scale_func = optimizer.scale_loss
    return wrapped, optimizer


def check_optimizer(chosen: OptimizerConfig, kept_as: ModelConfig) -> None:
    """Stop where the optimizer cannot be had on this device, or would not train this model. Pure.

    Raises:
        ValueError: it names the key, what is missing, and what to write instead.
    """
    here = device.current()
    if chosen.precision_aware and here.adam != "transformer_engine":
        raise ValueError(
            "optimizer.precision_aware is true, but bfloat16 moments need Transformer Engine's FusedAdam and a GPU, "
            "which are not here: set it false"
        )
    if chosen.offload and here.kind == "cuda" and here.adam != "transformer_engine":
        raise ValueError(
            f"optimizer.offload is {chosen.offload:g}, but Megatron's CPU-offloaded Adam needs Transformer Engine "
            "beside a GPU, which is not installed: set it 0"
        )
    if chosen.offload and kept_as.dtype != "bfloat16":
        # Megatron 0.16.1's HybridDeviceOptimizer hands gradients on through float32 copies, which float32 weights have
        # none of: those that stay on the GPU would not move, without an error.
        raise ValueError(
            f"optimizer.offload is {chosen.offload:g} with model.dtype {kept_as.dtype}: "
            "set offload 0, or model.dtype bfloat16"
        )


def _memory_savers(chosen: OptimizerConfig) -> dict[str, Any]:
    if chosen.precision_aware:
        return {
            "use_precision_aware_optimizer": True,
            "exp_avg_dtype": torch.bfloat16,
            "exp_avg_sq_dtype": torch.bfloat16,
            # Else the main weights would be kept as the 16 bits that the bfloat16 weights lack, and a checkpoint of
            # those is of no use to any other optimizer.
            "store_param_remainders": False,
        }
    if chosen.offload:
        on_gpu = device.current().kind == "cuda"
        return {
            "optimizer_cpu_offload": True,
            "optimizer_offload_fraction": chosen.offload,
            # It reads gradients and main weights the way that the precision-aware optimizer does; its moments are
            # float32 nonetheless.
            "use_precision_aware_optimizer": True,
            "pin_cpu_grads": on_gpu,
            "pin_cpu_params": on_gpu,
        }
    return {}


def learning_rate(chosen: OptimizerConfig, step: int) -> float:
    """The learning rate of a step, counted from 0."""
    return chosen.lr * min(1.0, (step + 1) / (chosen.warmup_steps + 1))


def set_learning_rate(optimizer: Any, chosen: OptimizerConfig, lr: float) -> None:
    """Set it, and each group's weight decay, which Megatron leaves to a scheduler."""
    for group in optimizer.param_groups:
        group["lr"] = lr
        group["weight_decay"] = chosen.weight_decay * group["wd_mult"]
