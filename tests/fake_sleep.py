"""vLLM's sleep mode on a CPU engine, which has none: memory is really given up, and comes back with other contents.

Addresses stay, as under `CuMemAllocator`, and their pages are closed: whoever reads or writes there ends in a
segmentation fault. Packed weights of the CPU's kernels have no address to close; they get the same garbage.
"""

import ctypes
from typing import Any

import torch
from torch import Tensor

from pivotrl.policy.memory import storage_bytes

_GARBAGE = 7.0
_PAGE, _CLOSED, _OPEN = 4096, 0, 3
_libc = ctypes.CDLL(None, use_errno=True)


class FakeSleep:
    """What `Residence` uses of `vllm.LLM`."""

    def __init__(self, engine: Any) -> None:
        self._engine = engine
        self._asleep: set[str] = set()
        self._buffers: dict[str, Tensor] = {}

    def sleep(self, level: int) -> None:
        assert level == 2, "at level 1 the weights would be copied to the host, for nothing"
        self._buffers = {name: one.clone() for name, one in self._engine.model.named_buffers()}
        self._asleep = {"weights", "kv_cache"}
        _protect([*self.weights, *self.caches], _CLOSED)

    def wake_up(self, tags: list[str]) -> None:
        (tag,) = tags
        self._asleep.remove(tag)
        tensors, garbage = (self.weights, _GARBAGE) if tag == "weights" else (self.caches, torch.nan)
        _protect(tensors, _OPEN)
        for tensor in tensors:
            tensor.fill_(garbage)
        if tag == "weights":
            for name, buffer in self._engine.model.named_buffers():
                buffer.copy_(self._buffers[name])
            for landing in self._engine.refit_route.receiver._landings.values():
                landing.close(landing.open().fill_(_GARBAGE))

    @property
    def weights(self) -> list[Tensor]:
        return [parameter.data for parameter in self._engine.model.parameters()]

    @property
    def caches(self) -> list[Tensor]:
        return list(self._engine._runner.kv_caches)

    def held(self) -> dict[str, int]:
        """Bytes of the engine's weights and of its cache that are there."""
        return {
            "engine": 0 if "weights" in self._asleep else storage_bytes(self.weights),
            "cache": 0 if "kv_cache" in self._asleep else storage_bytes(self.caches),
        }


def _protect(tensors: list[Tensor], mode: int) -> None:
    """Close or open the pages that lie whole within the tensors' storages."""
    for storage in {tensor.untyped_storage()._cdata: tensor.untyped_storage() for tensor in tensors}.values():
        begin = -(-storage.data_ptr() // _PAGE) * _PAGE
        size = (storage.data_ptr() + storage.nbytes()) // _PAGE * _PAGE - begin
        if size > 0:
            done = _libc.mprotect(ctypes.c_void_p(begin), ctypes.c_size_t(size), mode)
            assert done == 0, ctypes.get_errno()
