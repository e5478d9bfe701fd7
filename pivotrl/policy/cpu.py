"""What makes Megatron-Core 0.16.1 run on a CPU over gloo. Nothing here is used on a GPU.

Three kinds of change, each with its reason beside it:

1. `torch.cuda` stand-ins: Megatron asks for the current device, streams, events and generator states without asking
   whether there is a GPU. They exist only inside `scope()`.
2. A torch function mode, also only inside `scope()`: `device="cuda"` in any torch call means the CPU, and
   `Tensor.type()` answers with the CUDA name that Megatron's optimizers compare against.
3. Eight functions of Megatron itself, replaced for good by `patch_megatron()`: nothing else in the process calls them.

So vLLM and transformers, which live in the same process, never see a changed torch. A function mode belongs to one
thread; CPU autograd runs the Python code of a backward pass in the thread that called it.
"""

import contextlib
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

CPU = torch.device("cpu")

_CUDA_TYPE_NAMES = {
    "torch.FloatTensor": "torch.cuda.FloatTensor",
    "torch.HalfTensor": "torch.cuda.HalfTensor",
    "torch.BFloat16Tensor": "torch.cuda.BFloat16Tensor",
}


def _is_cuda(device: object) -> bool:
    if isinstance(device, torch.device):
        return device.type == "cuda"
    return isinstance(device, str) and device.split(":")[0] == "cuda"


class _CudaMeansCpu(TorchFunctionMode):
    """Rewrite CUDA devices to the CPU in every torch call of this thread."""

    def __torch_function__(self, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        kwargs = kwargs or {}
        if func is Tensor.type and len(args) == 1 and not kwargs:
            name = func(*args)
            return _CUDA_TYPE_NAMES.get(name, name)
        if func is Tensor.cuda:
            return args[0]
        if "device" in kwargs and _is_cuda(kwargs["device"]):
            kwargs = {**kwargs, "device": CPU}
        if func is Tensor.to and len(args) > 1 and _is_cuda(args[1]):
            args = (args[0], CPU, *args[2:])
        return func(*args, **kwargs)


class _Event:
    """A CUDA event where everything has already happened."""

    def __init__(self, *args: Any, **kwargs: Any) -> None: ...
    def record(self, *args: Any) -> None: ...
    def wait(self, *args: Any) -> None: ...
    def synchronize(self) -> None: ...
    def query(self) -> bool:
        return True

    def elapsed_time(self, end: "_Event") -> float:
        return 0.0


class _Stream:
    """A CUDA stream whose work is done when the call returns."""

    def __init__(self, *args: Any, **kwargs: Any) -> None: ...
    def wait_stream(self, *args: Any) -> None: ...
    def wait_event(self, *args: Any) -> None: ...
    def synchronize(self) -> None: ...
    def record_event(self, *args: Any) -> _Event:
        return _Event()


def _nothing(*args: Any, **kwargs: Any) -> None:
    """Stand in for a CUDA call that has no effect on a CPU."""


def _run_backward(*args: Any, **kwargs: Any) -> Any:
    """Torch takes a mode off while it handles a call, here `backward`, whose Python code needs it on again."""
    with _CudaMeansCpu():
        return _ENGINE(*args, **kwargs)


_ENGINE = torch.autograd._engine_run_backward
_STREAM = _Stream()
_TYPED = ("Float", "Half", "BFloat16", "Double", "Int", "Long", "Byte", "Bool")
_STAND_INS: list[tuple[Any, str, Any]] = [
    (torch.cuda, "current_device", lambda: CPU),
    (torch.cuda, "Stream", _Stream),
    (torch.cuda, "Event", _Event),
    (torch.cuda, "current_stream", lambda *args, **kwargs: _STREAM),
    (torch.cuda, "default_stream", lambda *args, **kwargs: _STREAM),
    (torch.cuda, "stream", lambda stream: contextlib.nullcontext()),
    (torch.cuda, "synchronize", _nothing),
    (torch.cuda, "empty_cache", _nothing),
    (torch.cuda.nvtx, "range_push", _nothing),
    (torch.cuda.nvtx, "range_pop", _nothing),
    (torch.cuda, "get_rng_state", lambda *args, **kwargs: torch.get_rng_state()),
    (torch.cuda, "set_rng_state", lambda state, *args, **kwargs: torch.set_rng_state(state)),
    (torch.cuda, "manual_seed", torch.manual_seed),
    (Tensor, "record_stream", _nothing),
    (torch.autograd, "_engine_run_backward", _run_backward),
    # Both constructors and the second argument of isinstance (Float16Module): a function would break the latter.
    *((torch.cuda, f"{name}Tensor", getattr(torch, f"{name}Tensor")) for name in _TYPED),
]
_scopes_open = 0


@contextlib.contextmanager
def scope() -> Iterator[None]:
    """Enter around Megatron work: building, forward and backward, the optimizer, checkpoints. May be nested.

    Do not `yield` to a caller from inside: whatever the caller runs meanwhile would see the changed torch.
    """
    global _scopes_open
    if _scopes_open:
        _scopes_open += 1
        try:
            yield
        finally:
            _scopes_open -= 1
        return
    saved = [(owner, name, owner.__dict__.get(name)) for owner, name, _ in _STAND_INS]
    _scopes_open = 1
    try:
        for owner, name, stand_in in _STAND_INS:
            setattr(owner, name, stand_in)
        with _CudaMeansCpu():
            yield
    finally:
        for owner, name, original in saved:
            if original is None:  # it was inherited
                delattr(owner, name)
            else:
                setattr(owner, name, original)
        _scopes_open = 0


def patch_megatron() -> None:
    """Import Megatron-Core inside a scope and replace what gloo or a CPU tensor cannot do. Call it once."""
    with scope():
        import megatron.core.optimizer.optimizer_config as optimizer_config
        import megatron.core.tensor_parallel.mappings as mappings
        import megatron.core.tensor_parallel.random as random
        import megatron.core.transformer.module  # noqa: F401  (it keeps torch.cuda's tensor types at import)
        import megatron.core.transformer.moe.moe_utils as moe_utils
        import megatron.core.transformer.moe.token_dispatcher as token_dispatcher
        from megatron.core.optimizer.cpu_offloading import HybridDeviceOptimizer

    # They reach for CUDA's own generators, past torch.cuda.get_rng_state.
    random._get_cuda_rng_state = lambda *args, **kwargs: torch.get_rng_state()
    random._set_cuda_rng_state = lambda state, *args, **kwargs: torch.set_rng_state(state)

    # Megatron converts split sizes to numpy only if they were on a GPU; expert tensor parallelism needs numpy.
    def already_on_cpu(tensor: Any, as_numpy: bool = False, record_stream: bool = False) -> Any:
        return tensor.numpy() if as_numpy and torch.is_tensor(tensor) else tensor

    moe_utils.maybe_move_tensor_to_cpu = token_dispatcher.maybe_move_tensor_to_cpu = already_on_cpu

    # Where Transformer Engine is installed, the router would multiply with its CUDA-only kernel.
    moe_utils.te_general_gemm = None

    # Without Transformer Engine it compares None with a version.
    optimizer_config.is_te_min_version = lambda *args, **kwargs: False

    # The CPU-offloaded Adam tells the GPU's tensors from its copies by `is_cuda`.
    HybridDeviceOptimizer._get_sub_optimizer_param_groups = _told_apart(
        HybridDeviceOptimizer._get_sub_optimizer_param_groups
    )

    mappings._gather_along_first_dim = _uneven_gather(mappings._gather_along_first_dim)
    mappings._reduce_scatter_along_first_dim = _uneven_reduce_scatter(mappings._reduce_scatter_along_first_dim)


class _HostCopies(TorchFunctionMode):
    """Tensors are a GPU's, but for what `Tensor.cpu()` gave, which is a copy, and what was made of that."""

    def __init__(self) -> None:
        super().__init__()
        self._host: dict[int, Tensor] = {}

    def __torch_function__(self, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        if func == Tensor.is_cuda.__get__:  # made anew at every look
            return id(args[0]) not in self._host
        if func is Tensor.pin_memory:
            return args[0]
        result = args[0].clone() if func is Tensor.cpu else func(*args, **(kwargs or {}))
        if func is Tensor.cpu or (args and isinstance(args[0], Tensor) and id(args[0]) in self._host):
            self._host[id(result)] = result
        return result


def _told_apart(split: Any) -> Any:
    def split_on_cpu(self: Any, offload_fraction: float) -> Any:
        with _HostCopies():
            return split(self, offload_fraction)

    return split_on_cpu


def _uneven_gather(even_gather: Any) -> Any:
    """Gloo gathers equal sizes only; pad to the largest, gather, trim. Expert tensor parallelism needs it."""

    def gather(x: Tensor, group: Any, output_split_sizes: Any = None, use_global_buffer: bool = False) -> Tensor:
        if output_split_sizes is None or group.size() == 1:
            return even_gather(x, group, None, use_global_buffer)
        sizes = [int(size) for size in output_split_sizes]
        padded = x.new_zeros((max(sizes), *x.shape[1:]))
        padded[: x.shape[0]] = x
        parts = [torch.empty_like(padded) for _ in sizes]
        torch.distributed.all_gather(parts, padded, group=group)
        return torch.cat([part[:size] for part, size in zip(parts, sizes, strict=True)])

    return gather


def _uneven_reduce_scatter(even_reduce_scatter: Any) -> Any:
    """Gloo has no reduce-scatter of unequal sizes; all-reduce and keep this rank's rows."""

    def reduce_scatter(x: Tensor, group: Any, input_split_sizes: Any = None, use_global_buffer: bool = False) -> Tensor:
        if input_split_sizes is None or group.size() == 1:
            return even_reduce_scatter(x, group, None, use_global_buffer)
        total = x.contiguous().clone()
        torch.distributed.all_reduce(total, group=group)
        return total.split([int(size) for size in input_split_sizes])[group.rank()].contiguous()

    return reduce_scatter
