"""Gradients and optimizer state out of the way while the engine samples, and back before the update."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, UntypedStorage

from pivotrl.policy import device
from pivotrl.policy.memory import gradient_buffers, optimizer_tensors


class Offload:
    """What a trainer holds besides its weights, asleep or awake.

    Everything is done to storages, in place: a gradient is a view of its buffer, a shard of a main weight may be
    another's view, and Adam finds its moments by the tensor, so no tensor may change for another. Gradients are dropped
    (every update begins with zeros), main weights and moments are copied to the host, bit for bit, to memory that is
    pinned on a machine with a GPU. On the CPU the same is done, from memory to memory, which only proves that it works.
    """

    def __init__(self, ddp: Sequence[Any], optimizer: Any, weights: Sequence[Tensor]) -> None:
        """
        Args:
            ddp: the wrapped chunks.
            optimizer: Megatron's.
            weights: the model's parameters, which stay.
        """
        self._ddp, self._optimizer, self._weights = ddp, optimizer, weights
        self._gradients: list[tuple[Tensor, int]] = []
        self._state: list[tuple[UntypedStorage, Tensor]] = []
        self.asleep = False

    def sleep(self) -> None:
        """Free the gradients and move the optimizer. Nothing may read either before `wake`: it could crash."""
        assert not self.asleep
        here = device.current().torch_device
        with device.scope():
            self._optimizer.zero_grad()  # the last gradients, which are views of the buffers
        for buffer in gradient_buffers(self._ddp):
            storage = buffer.grad_data.untyped_storage()
            self._gradients.append((buffer.grad_data, storage.nbytes()))
            storage.resize_(0)
        for tensor in optimizer_tensors(self._optimizer, self._weights):
            if tensor.device == here:  # not what the CPU's Adam updates beside a GPU
                storage = tensor.untyped_storage()
                host = torch.empty(storage.nbytes(), dtype=torch.uint8, pin_memory=here.type == "cuda")
                host.copy_(_bytes(storage), non_blocking=True)
                self._state.append((storage, host))
        if here.type == "cuda":
            torch.cuda.synchronize(here)
        for storage, _ in self._state:
            storage.resize_(0)
        if here.type == "cuda":
            torch.cuda.empty_cache()  # the engine's allocator is not torch's alone
        self.asleep = True

    def wake(self) -> None:
        """Undo `sleep`: zero gradients, and the optimizer's state as it was."""
        assert self.asleep
        for grad_data, size in self._gradients:
            grad_data.untyped_storage().resize_(size)
            grad_data.zero_()
        for storage, host in self._state:
            storage.resize_(host.numel())
            _bytes(storage).copy_(host, non_blocking=True)
        if device.current().kind == "cuda":
            torch.cuda.synchronize(device.current().torch_device)  # the host's copies go
        self._gradients, self._state = [], []
        self.asleep = False


def _bytes(storage: UntypedStorage) -> Tensor:
    return torch.empty(0, dtype=torch.uint8, device=storage.device).set_(storage)
