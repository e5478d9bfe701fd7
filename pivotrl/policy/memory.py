"""Bytes of weights, gradients and optimizer that a policy really holds on this rank: counted in storages, once each."""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from torch import Tensor

if TYPE_CHECKING:
    from pivotrl.policy.step import Policy


def measured_bytes(policy: "Policy") -> dict[str, int]:
    """`weights`, `gradients` and `optimizer` of this rank, in bytes.

    Storages are counted as they are, so with the padding of Megatron's buffers: with `optimizer.distributed` every
    weight starts at a multiple of 64 elements of its buffer, and a buffer's length is a multiple of 128 and of its
    data-parallel size. `optimizer` is what Adam updates besides the weights themselves: float32 main weights of
    bfloat16 models, and both moments, which exist after the first update.
    """
    weights = list(policy.model.parameters())
    return {
        "weights": storage_bytes(weights),
        "gradients": storage_bytes(buffer.grad_data for buffer in gradient_buffers(policy.ddp)),
        "optimizer": storage_bytes(optimizer_tensors(policy.optimizer, weights)),
    }


def gradient_buffers(ddp: Any) -> list[Any]:
    """Megatron's buffers of `main_grad`, those of experts included, of one wrapped chunk or a list of them."""
    chunks = ddp if isinstance(ddp, list) else [ddp]
    return [buffer for chunk in chunks for buffer in chunk.buffers + chunk.expert_parallel_buffers]


def optimizer_tensors(optimizer: Any, weights: Iterable[Tensor]) -> Iterator[Tensor]:
    """Every tensor of the optimizer's own, each storage once: main weights and state, but no view of a weight.

    An optimizer of a float32 model updates the weights in place, so it has moments only.
    """
    seen = {_storage(tensor) for tensor in weights}
    for tensor in _held(optimizer):
        if _storage(tensor) not in seen:
            seen.add(_storage(tensor))
            yield tensor


def storage_bytes(tensors: Iterable[Tensor]) -> int:
    """Bytes of the tensors' storages, each counted once."""
    return sum({_storage(tensor): tensor.untyped_storage().nbytes() for tensor in tensors}.values())


def _held(optimizer: Any) -> Iterator[Tensor]:
    for part in getattr(optimizer, "chained_optimizers", [optimizer]):
        if part.optimizer is None:  # this rank has nothing of that part to train
            continue
        # Megatron's CPU-offloaded Adam is one of several
        for inner in getattr(part.optimizer, "sub_optimizers", [part.optimizer]):
            for group in inner.param_groups:
                yield from group["params"]
            for state in inner.state.values():
                yield from (value for value in state.values() if isinstance(value, Tensor))


def _storage(tensor: Tensor) -> int:
    """Which storage the tensor is in, also where it has been freed and has no address."""
    return tensor.untyped_storage()._cdata
