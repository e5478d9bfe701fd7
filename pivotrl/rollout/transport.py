"""Weights from the policy's parameters into the engine's, by a plan: rounds of messages through two buffers.

While one round's bytes land, the next round's travel. Each buffer is half what a rank sends and half what it receives;
nothing else is allocated, whatever the size of the model. What a rank owns and needs itself is copied straight across.

Each transfer is summed twice, in the owner's memory before it is sent and in the engine's tensor after it landed
(`proof.checksum`), for `proof.check_sums` to compare.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import torch
import torch.distributed as dist
from torch import Tensor

from pivotrl.policy.shards import Block, Bounds
from pivotrl.rollout.proof import checksum
from pivotrl.rollout.transfers import ALIGN, Chunk, Round, Transfer, Transfers, shape_of, volume


class Source(Protocol):
    """This rank's live weights: `policy.shards.Shards`."""

    dtype: Any
    device: Any

    def read(self, block: Block, bounds: Bounds) -> list[Tensor]:
        """One view of the box's shape, or one for each index of its first dimension."""
        ...


class Sink(Protocol):
    """This rank's engine: `receiver.Receiver`."""

    def place(self, move: Transfer, bounds: Bounds) -> Tensor:
        """The view of the engine's tensor in which a box of a transfer lands."""
        ...

    def landed(self, move: Transfer, bounds: Bounds) -> None:
        """The box is written."""
        ...


class Transport:
    """One rank's part of every refit by one plan."""

    def __init__(self, plan: Transfers, rounds: Sequence[Round], sink: Sink, rank: int):
        self._plan, self._rounds, self._sink, self._rank = plan, rounds, sink, rank
        messages = [side for one in rounds for side in (one.sends, one.receives)]
        self._half = max((_length(side, plan) for side in messages), default=0)
        self._buffers: list[Tensor] = []

    @property
    def buffer_bytes(self) -> int:
        """Bytes of the two buffers together, while there are any."""
        return 4 * self._half

    def run(self, source: Source, keep: bool = False) -> Tensor:
        """Move everything (collective, in the sense that every rank runs its own rounds).

        Args:
            keep: keep the buffers for the next time.

        Returns:
            For each transfer, its checksum at the owner and where it landed, 0 on ranks that are neither: int64
            [2, transfers].
        """
        self._source = source
        self._sums = torch.zeros((2, len(self._plan.moves)), dtype=torch.int64, device=source.device)
        if not self._buffers:
            self._buffers = [torch.empty(2 * self._half, dtype=torch.uint8, device=source.device) for _ in range(2)]
        works: list[Any] = []
        for index in range(len(self._rounds) + 1):
            ahead = self._post(index) if index < len(self._rounds) else []
            if index:
                for work in works:
                    work.wait()
                self._land(index - 1)
            works = ahead
        if not keep:
            self._buffers = []
        return self._sums

    def _post(self, index: int) -> list[Any]:
        buffer, one = self._buffers[index % 2], self._rounds[index]
        operations = []
        for peer, chunks in one.receives.items():
            begin, end = self._stretch(chunks)
            operations.append(dist.P2POp(dist.irecv, buffer[self._half + begin : self._half + end], peer))
        for peer, chunks in one.sends.items():
            for chunk in chunks:
                self._pack(chunk, self._view(buffer, chunk, 0))
            begin, end = self._stretch(chunks)
            operations.append(dist.P2POp(dist.isend, buffer[begin:end], peer))
        return send(operations)

    def _pack(self, chunk: Chunk, into: Tensor) -> None:
        _copy(into, self._source.read(self._plan.moves[chunk.transfer].block, chunk.bounds))
        self._sums[0, chunk.transfer] += checksum(into)

    def _land(self, index: int) -> None:
        buffer = self._buffers[index % 2]
        for owner, chunk in self._rounds[index].lands:
            move = self._plan.moves[chunk.transfer]
            into = self._sink.place(move, chunk.bounds)
            if owner == self._rank:
                views = self._source.read(move.block, chunk.bounds)
                _copy(into, views)
                for view in views:
                    self._sums[0, chunk.transfer] += checksum(view)
            else:
                into.copy_(self._view(buffer, chunk, self._half))
            self._sums[1, chunk.transfer] += checksum(into)
            self._sink.landed(move, chunk.bounds)

    def _view(self, buffer: Tensor, chunk: Chunk, half: int) -> Tensor:
        begin = half + chunk.offset
        flat = buffer[begin : begin + volume(chunk.bounds) * self._plan.itemsize]
        return flat.view(self._source.dtype).view(shape_of(chunk.bounds))

    def _stretch(self, chunks: Sequence[Chunk]) -> tuple[int, int]:
        return chunks[0].offset, chunks[-1].offset + volume(chunks[-1].bounds) * self._plan.itemsize


def send(operations: list[Any]) -> list[Any]:
    """Start a round's messages; gloo and NCCL alike."""
    return dist.batch_isend_irecv(operations) if operations else []


def _copy(into: Tensor, views: list[Tensor]) -> None:
    if len(views) == 1 and views[0].shape == into.shape:
        into.copy_(views[0])
    else:
        torch._foreach_copy_(list(into), views)


def _length(messages: Mapping[int, Sequence[Chunk]], plan: Transfers) -> int:
    """Bytes of a region that a round's messages take, rounded up so that what lies behind is aligned."""
    ends = [chunks[-1].offset + volume(chunks[-1].bounds) * plan.itemsize for chunks in messages.values()]
    return -(-max(ends, default=0) // ALIGN) * ALIGN
