"""The weights and the optimizer's state as tensors of the whole model, which any layout can cut anew.

A slot of the optimizer (`checkpoint_optimizer`) is a run of a flattened parameter. Cut at the ends of rows it is a few
boxes, and a box of a parameter's shard is a box of the whole tensor: so every rank writes and reads exactly what it
holds, without a collective and without a copy, whatever the layout and the optimizer. The key of a moment is that of
its weight behind `optimizer.exp_avg.`; the boxes are of no regular grid, which torch's format allows.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist
from torch import Tensor

from pivotrl.policy import checkpoint_files
from pivotrl.policy.checkpoint_optimizer import KINDS, Slot, init_state, slots

if TYPE_CHECKING:
    from pivotrl.policy.step import Policy

Box = tuple[tuple[int, ...], tuple[int, ...]]
"""(offsets, sizes)."""


@dataclass(frozen=True, slots=True)
class Piece:
    """One box of one whole tensor, with the memory that it is in."""

    kind: str
    key: str
    """Name of the weight in the checkpoint."""
    data: Tensor
    """As many axes as the whole tensor."""
    shape: tuple[int, ...]
    """Of the whole tensor."""
    offset: tuple[int, ...]
    replica: tuple[int, ...]
    """All zeros on the one rank that writes the box."""
    in_model: bool
    """The model's weights are these numbers already: the main weight of a float32 parameter."""
    may_be_padded: bool
    """The stored tensor may have fewer or more rows (vocabularies are padded to the layout)."""


def to_save(policy: "Policy") -> dict[str, Any]:
    """What `checkpoint_write` writes: `ShardedTensor`s of the model and of the optimizer. No copies."""
    assert not policy.asleep, "call wake() before a checkpoint"
    init_state(policy.optimizer)
    model = policy.model.sharded_state_dict()
    boxes = [piece for piece in _cut(model, slots(policy.optimizer)) if not piece.in_model]
    return {"model": model, "optimizer": _entries(boxes, lambda piece: f"optimizer.{piece.kind}.{piece.key}")}


def load(policy: "Policy", folder: Path) -> None:
    """Fill the weights and the optimizer's state in place (collective). The files have been verified.

    A float32 model takes the main weights of a bfloat16 run as its weights; a bfloat16 model that continues a float32
    run takes those weights as its main weights.

    Raises:
        ValueError: the checkpoint is of another model, or of an earlier version of PivotRL.
    """
    assert not policy.asleep, "call wake() before a checkpoint"
    stored = checkpoint_files.check_complete(folder).state_dict_metadata
    if not any(key.startswith("optimizer.exp_avg.") for key in stored):
        raise ValueError(f"{folder}: it holds no optimizer state that can be continued from: convert it to a model")
    init_state(policy.optimizer)
    model = policy.model.sharded_state_dict()
    held = list(slots(policy.optimizer))
    boxes = [piece for piece in _cut(model, held) if not piece.in_model]  # before Megatron detaches the model's entries

    def exact(entry: Any) -> Any:
        key = f"optimizer.main.{entry.key}"
        return replace(entry, key=key) if key in stored and entry.data.dtype == torch.float32 else entry

    weights = {name: exact(entry) for name, entry in model.items()}
    state = checkpoint_files.load({"model": weights}, folder, verified=True)
    policy.model.load_state_dict(state["model"])

    def key_of(piece: Piece) -> str:
        key = f"optimizer.{piece.kind}.{piece.key}"
        return piece.key if piece.kind == "main" and key not in stored else key

    checkpoint_files.load({"optimizer": _entries(boxes, key_of)}, folder, verified=True)
    for slot in held:
        if slot.store is not None:
            slot.store()


def norms(policy: "Policy") -> dict[str, float]:
    """Euclidean norms of the whole model's trained main weights and moments, summed in float64 (collective).

    They do not depend on the layout, but for the order of a sum of float64 numbers.
    """
    init_state(policy.optimizer)
    total = dict.fromkeys(KINDS, 0.0)
    for piece in _cut(policy.model.sharded_state_dict(), slots(policy.optimizer)):
        if not any(piece.replica):
            total[piece.kind] += torch.linalg.vector_norm(piece.data, dtype=torch.float64).item() ** 2
    summed = torch.tensor(list(total.values()), dtype=torch.float64)
    dist.all_reduce(summed, group=policy.world.object_group)
    return {kind: math.sqrt(value) for kind, value in zip(KINDS, summed.tolist(), strict=True)}


def boxes_of_run(shape: Sequence[int], start: int, stop: int) -> Iterator[Box]:
    """Cut elements [start, stop) of a row-major tensor into boxes, in order: at most 2 x axes - 1 of them.

    Each box is a run of the elements as well.
    """
    if start >= stop:
        return
    if len(shape) == 1:
        yield (start,), (stop - start,)
        return
    row = math.prod(shape[1:])
    first, last = -(-start // row), stop // row  # whole rows [first, last)
    if first > last:  # within one row
        for offsets, sizes in boxes_of_run(shape[1:], start - last * row, stop - last * row):
            yield (last, *offsets), (1, *sizes)
        return
    for offsets, sizes in boxes_of_run(shape[1:], start - (first - 1) * row, row):
        yield (first - 1, *offsets), (1, *sizes)
    if first < last:
        yield (first, *(0 for _ in shape[1:])), (last - first, *shape[1:])
    for offsets, sizes in boxes_of_run(shape[1:], 0, stop - last * row):
        yield (last, *offsets), (1, *sizes)


def _cut(model: dict[str, Any], held: Iterable[Slot]) -> Iterator[Piece]:
    """Every box that this rank holds of main weights and moments; `model` is the model's sharded state."""
    by_parameter = {id(entry.data): entry for entry in model.values()}
    for slot in held:
        for shard in _shards(by_parameter[id(slot.param)]):
            yield from _pieces_of_shard(slot, shard)


def _pieces_of_shard(slot: Slot, shard: Any) -> Iterator[Piece]:
    """`shard` is the parameter, or a run of its rows: gate and up are one parameter and lie apart in the whole."""
    assert shard.data.is_contiguous() and len(shard.replica_id) == 3, shard
    replica = (*shard.replica_id[:2], 0) if slot.exclusive else shard.replica_id
    origin = shard.data.storage_offset() - slot.param.storage_offset()
    start, stop = max(slot.start - origin, 0), min(slot.stop - origin, shard.data.numel())
    front = len(shard.global_shape) - shard.data.ndim  # axes for layers and experts, which the shard has not
    for offsets, sizes in boxes_of_run(shard.data.shape, start, stop):
        here = sum(at * step for at, step in zip(offsets, shard.data.stride(), strict=True)) + origin - slot.start
        for kind, flat in slot.tensors.items():
            yield Piece(
                kind=kind,
                key=shard.key,
                data=flat[here : here + math.prod(sizes)].view(*[1] * front, *sizes),
                shape=shard.global_shape,
                offset=tuple(a + b for a, b in zip(shard.global_offset, (0,) * front + offsets, strict=True)),
                replica=replica,
                in_model=kind == "main" and slot.main_is_weight,
                may_be_padded=shard.allow_shape_mismatch,
            )


def _shards(entry: Any) -> list[Any]:
    from megatron.core.dist_checkpointing.mapping import ShardedTensorFactory

    return entry.build() if isinstance(entry, ShardedTensorFactory) else [entry]


def _entries(boxes: Sequence[Piece], key_of: Callable[[Piece], str]) -> dict[str, Any]:
    from megatron.core.dist_checkpointing.mapping import ShardedTensor

    return {
        str(number): ShardedTensor(
            key=key_of(piece),
            data=piece.data,
            dtype=piece.data.dtype,
            local_shape=tuple(piece.data.shape),
            global_shape=piece.shape,
            global_offset=piece.offset,
            axis_fragmentations=None,  # no regular grid
            replica_id=piece.replica,
            allow_shape_mismatch=piece.may_be_padded,
        )
        for number, piece in enumerate(boxes)
    }
