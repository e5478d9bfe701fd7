"""Peak bytes of the tensors that were made in a stretch of code, however they were freed."""

import weakref
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_iter


class Allocations(TorchDispatchMode):
    """Follows every storage that an operator makes (views and in-place results are not new) until it is freed."""

    def __init__(self) -> None:
        super().__init__()
        self.now = self.peak = 0
        self._alive: dict[int, int] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        kwargs = kwargs or {}
        given = {_key(tensor) for tensor in tree_iter((args, kwargs)) if isinstance(tensor, torch.Tensor)}
        result = func(*args, **kwargs)
        for tensor in tree_iter(result):
            if isinstance(tensor, torch.Tensor) and _key(tensor) not in given and _key(tensor) not in self._alive:
                storage = tensor.untyped_storage()
                self._alive[_key(tensor)] = storage.nbytes()
                self.now += storage.nbytes()
                self.peak = max(self.peak, self.now)
                weakref.finalize(storage, self._freed, _key(tensor))
        return result

    def _freed(self, key: int) -> None:
        self.now -= self._alive.pop(key)


def _key(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage()._cdata
