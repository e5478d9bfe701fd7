"""The one place where CPU or GPU is chosen. Everything else asks `current()` and enters `scope()`."""

import contextlib
import functools
import importlib.util
import os
from dataclasses import dataclass
from typing import Literal

import torch

from pivotrl.policy import cpu


@dataclass(frozen=True, slots=True)
class Device:
    """What this process computes on."""

    kind: Literal["cpu", "cuda"]
    torch_device: torch.device
    """Where the weights live."""
    backend: Literal["gloo", "nccl"]
    """torch.distributed's backend for tensors."""
    transformer_engine: bool
    """Whether layers come from NVIDIA's Transformer Engine."""
    adam: Literal["torch", "apex", "transformer_engine"] = "torch"
    """Whose Adam Megatron takes: a fused one where there is one."""
    keeps_buffers: bool = False
    """Whether buffers of a step stay for the next one: a GPU's memory is wanted by the engine, and torch's allocator
    hands it out again at once; a CPU's fresh pages cost many times a copy into them."""
    gradient_fusion: Literal["apex", "transformer_engine"] | None = None
    """Who adds weight gradients to `main_grad` inside the matrix multiplication that makes them, if anyone."""


@functools.cache
def current() -> Device:
    """The device of this process: the GPU numbered by LOCAL_RANK where there is one, else the CPU.

    `PIVOTRL_DEVICE=cpu` asks for the CPU on a machine with GPUs.

    Raises:
        ValueError: `PIVOTRL_DEVICE` names something else, or a GPU where there is none.
    """
    wanted = os.environ.get("PIVOTRL_DEVICE", "cuda" if torch.cuda.is_available() else "cpu")
    if wanted not in ("cpu", "cuda"):
        raise ValueError(f"PIVOTRL_DEVICE={wanted!r}: write cpu or cuda, or leave it unset")
    if wanted == "cpu":
        return Device("cpu", cpu.CPU, "gloo", transformer_engine=False, keeps_buffers=True)
    if not torch.cuda.is_available():
        raise ValueError("PIVOTRL_DEVICE=cuda, but torch sees no GPU here: unset it to run on the CPU")
    index = int(os.environ.get("LOCAL_RANK", "0"))
    engine = _installed("transformer_engine")
    # Apex's kernel is a module of its own, which is there only where Apex was built with its CUDA extensions.
    kernel = _installed("fused_weight_gradient_mlp_cuda")
    return Device(
        "cuda",
        torch.device("cuda", index),
        "nccl",
        transformer_engine=engine,
        adam="transformer_engine" if engine else "apex" if _installed("apex") else "torch",
        gradient_fusion="transformer_engine" if engine else "apex" if kernel else None,
    )


def memory_bytes() -> int | None:
    """All of this process's GPU, whoever holds it; None on the CPU."""
    here = current()
    return None if here.kind == "cpu" else torch.cuda.get_device_properties(here.torch_device).total_memory


def gpu_uuid() -> str | None:
    """NVML's name of this process's GPU, whatever CUDA_VISIBLE_DEVICES numbers it; None on the CPU."""
    if current().kind == "cpu":
        return None
    return f"GPU-{torch.cuda.get_device_properties(current().torch_device).uuid}"


def _installed(module: str) -> bool:
    return importlib.util.find_spec(module) is not None


@functools.cache
def prepare() -> None:
    """Make Megatron-Core usable on this device. Call before any import of it; later calls do nothing."""
    if current().kind == "cpu":
        cpu.patch_megatron()
    else:
        torch.cuda.set_device(current().torch_device)


def scope() -> contextlib.AbstractContextManager[None]:
    """Enter around Megatron work (build, forward, backward, optimizer step, checkpoint). Does nothing on a GPU."""
    return cpu.scope() if current().kind == "cpu" else contextlib.nullcontext()
