"""Every weight of a sharded Megatron model, whole, under its Hugging Face name, on every rank, in few collectives.

The plan (names, shapes, offsets) follows from the architecture and the layout alone: every rank makes the same plan for
every stage, once, without a message and without touching a tensor. Then one export is, for each bucket, one copy into a
flat buffer, one all-gather, and views. The buckets of all pipeline stages run side by side, so that each rank sends
about as much as any other; a bucket's gathered size is bounded.

Experts move as two stacked tensors for each layer; single experts are views of them.

Legend: E = experts, L = local experts, H = hidden, I = an expert's inner width.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from pivotrl.policy.architecture import Architecture
from pivotrl.policy.mapping import (
    HfTensor,
    Layout,
    Param,
    experts_of_rank,
    layers_of_stage,
    moe_names,
    params_of_rank,
    split,
    stacked_experts,
)
from pivotrl.policy.parallel import World

BUCKET_BYTES = 1 << 29


@dataclass(frozen=True, slots=True)
class Slot:
    """A stretch of a rank's flat buffer: its shard of one tensor, or of one layer's stacked experts."""

    tensor: HfTensor
    """The whole tensor; stacked experts are [E, 2I, H] or [E, H, I]."""
    shard_shape: tuple[int, ...]
    """[L, 2, I / ETP, H] or [L, H, I / ETP] for experts."""
    sources: tuple[str, ...]
    """The rank's Megatron parameters that fill it, under their first names."""
    part: int = 0
    """Which view of `mapping.split` of the source fills it (experts: all of them)."""

    @property
    def numel(self) -> int:
        return torch.Size(self.shard_shape).numel()


@dataclass(frozen=True, slots=True)
class Bucket:
    """What one all-gather carries: for each pipeline stage, the slots of any of its ranks."""

    stages: tuple[tuple[Slot, ...], ...]

    @property
    def numel(self) -> int:
        """Length of each rank's flat buffer: the longest stage's."""
        return max(sum(slot.numel for slot in slots) for slots in self.stages)


def dense_slots(arch: Architecture, layout: Layout) -> list[Slot]:
    """One slot for each tensor outside the experts on this stage."""
    return [
        Slot(part, part.shard_shape(layout.tp_size), (param.names[0],), i)
        for param in params_of_rank(arch, layout)
        if not param.expert and not param.copy_of_embedding
        for i, part in enumerate(param.parts)
    ]


def expert_slots(arch: Architecture, layout: Layout) -> list[Slot]:
    """Two slots for each layer of this stage: its stacked gate-and-up, and its stacked down projections."""
    if not arch.experts:
        return []
    local = len(experts_of_rank(arch, layout))
    width = arch.expert_ffn // layout.etp_size
    slots, stacked = [], stacked_experts(arch)
    for prefix, layer in layers_of_stage(arch, layout):
        ours, theirs = f"{prefix}mlp.experts.local_experts", f"model.layers.{layer}.{moe_names(arch).block}.experts"
        for fc, name, shard in (
            ("linear_fc1", "gate_up_proj", (2, width, arch.hidden)),
            ("linear_fc2", "down_proj", (arch.hidden, width)),
        ):
            slots.append(
                Slot(
                    stacked[f"{theirs}.{name}"],
                    (local, *shard),
                    tuple(f"{ours}.{j}.{fc}.weight" for j in range(local)),
                )
            )
    return slots


def make_buckets(stages: list[list[Slot]], max_numel: int) -> list[Bucket]:
    """Cut every stage's slots into runs of at most `max_numel` elements (a longer slot is alone), side by side."""
    runs_of_stages = []
    for slots in stages:
        runs: list[list[Slot]] = []
        room = 0
        for slot in slots:
            if not runs or slot.numel > room:
                runs.append([])
                room = max_numel
            runs[-1].append(slot)
            room -= slot.numel
        runs_of_stages.append(runs)
    return [Bucket(tuple(tuple(run or ()) for run in runs)) for runs in zip_longest(*runs_of_stages) if any(runs)]


class Exporter:
    """Exports one model as often as wanted; the plan is made once."""

    def __init__(self, model: Any, arch: Architecture, world: World, bucket_bytes: int = BUCKET_BYTES) -> None:
        """Make the plan and check this rank's model against it.

        Args:
            model: this stage's GPTModel, unwrapped, or its `Chunks`.
            arch: its architecture.
            world: the layout it was built on.
            bucket_bytes: bound on the gathered bytes of one bucket, unless one tensor is larger.
        """
        self._arch, self._world = arch, world
        layout = layout_of(world)
        self._params = match_params(model, params_of_rank(arch, layout))
        dtypes = {tensor.dtype for _, tensor in self._params.values()}
        assert len(dtypes) == 1, f"the parameters have several types: {dtypes}"
        self._dtype = dtypes.pop()
        stages = [replace(layout, pp_rank=stage) for stage in range(world.pp_size)]
        itemsize = self._dtype.itemsize
        self._dense, self._experts = (
            make_buckets(
                [slots(arch, stage) for stage in stages], bucket_bytes // itemsize // dist.get_world_size(group)
            )
            for slots, group in ((dense_slots, world.model_group), (expert_slots, world.expert_model_group))
        )

    def tensors(self, stack_experts: bool = False) -> Iterator[tuple[str, Tensor]]:
        """Every weight of the model by name (collective: all ranks must exhaust it, in step).

        The tensors are copies, in the parameters' type and on their device; some share memory with each other.

        Args:
            stack_experts: give an MoE layer's experts as two tensors, `...mlp.experts.gate_up_proj` [E, 2I, H] and
                `...mlp.experts.down_proj` [E, H, I], instead of three for each expert.
        """
        for bucket in self._dense:
            for stage, rows, slot in self._gather(bucket, self._world.model_group):
                ranks = self._world.tp_size
                yield slot.tensor.name, _unshard(rows[stage * ranks : (stage + 1) * ranks], slot)
        for bucket in self._experts:
            for stage, rows, slot in self._gather(bucket, self._world.expert_model_group):
                ranks = self._world.ep_size * self._world.etp_size
                stacked = self._stack(rows[stage * ranks : (stage + 1) * ranks], slot)
                if stack_experts:
                    yield slot.tensor.name, stacked
                else:
                    yield from self._single_experts(slot.tensor.name, stacked)

    @torch.no_grad()
    def _gather(self, bucket: Bucket, group: Any) -> Iterator[tuple[int, Tensor, Slot]]:
        """All-gather a bucket; give for each slot its stage and the shards of all ranks [ranks of the group, n]."""
        device = next(iter(self._params.values()))[1].device
        mine = torch.empty(bucket.numel, dtype=self._dtype, device=device)
        targets, sources = [], []
        offset = 0
        for slot in bucket.stages[self._world.pp_rank]:
            into = mine[offset : offset + slot.numel].view(slot.shard_shape)
            offset += slot.numel
            for target, source in self._copies(slot, into):
                targets.append(target)
                sources.append(source)
        if targets:
            torch._foreach_copy_(targets, sources)
        ranks = dist.get_world_size(group)
        everyone = mine[None]
        if ranks > 1:
            everyone = torch.empty((ranks, bucket.numel), dtype=self._dtype, device=device)
            dist.all_gather_into_tensor(everyone.view(-1), mine, group=group)
        for stage, slots in enumerate(bucket.stages):
            offset = 0
            for slot in slots:
                yield stage, everyone[:, offset : offset + slot.numel], slot
                offset += slot.numel

    def _copies(self, slot: Slot, into: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
        """Pairs of equal shape (stretch of the buffer, view of a live parameter) that fill one slot."""
        if len(slot.sources) > 1 or self._params[slot.sources[0]][0].expert:
            for j, name in enumerate(slot.sources):
                source = self._params[name][1].detach()
                yield into[j].view(source.shape), source
        else:
            param, tensor = self._params[slot.sources[0]]
            source = split(param, tensor.detach(), self._arch)[slot.part]
            yield into.view(source.shape), source

    def _stack(self, rows: Tensor, slot: Slot) -> Tensor:
        """[EP * ETP, n] -> [E, 2I, H] or [E, H, I]."""
        shards = rows.unflatten(0, (self._world.ep_size, self._world.etp_size)).unflatten(2, slot.shard_shape)
        # The width I / ETP is the last dimension but one of gate-and-up, the last of down.
        width = -2 if len(slot.shard_shape) == 4 else -1
        return shards.movedim(1, width - 1).reshape(slot.tensor.shape)

    def _single_experts(self, name: str, stacked: Tensor) -> Iterator[tuple[str, Tensor]]:
        names = moe_names(self._arch)
        prefix, kind = name.rsplit(".", 1)
        for expert, tensor in enumerate(stacked):
            if kind == "down_proj":
                yield f"{prefix}.{expert}.{names.down}.weight", tensor
            else:
                gate, up = tensor.chunk(2)
                yield f"{prefix}.{expert}.{names.gate}.weight", gate
                yield f"{prefix}.{expert}.{names.up}.weight", up


def _unshard(rows: Tensor, slot: Slot) -> Tensor:
    """[TP, n] -> the whole tensor."""
    shards = rows.unflatten(1, slot.shard_shape)
    if slot.tensor.dim is None:
        return shards[0]
    # Shards of a padded vocabulary are longer together than it is.
    whole = shards.movedim(0, slot.tensor.dim).flatten(slot.tensor.dim, slot.tensor.dim + 1)
    return whole.narrow(slot.tensor.dim, 0, slot.tensor.shape[slot.tensor.dim])


def layout_of(world: World) -> Layout:
    """This rank's coordinates."""
    return Layout(
        tp_rank=world.tp_rank,
        tp_size=world.tp_size,
        pp_rank=world.pp_rank,
        pp_size=world.pp_size,
        vp_size=world.vp_size,
        ep_rank=world.ep_rank,
        ep_size=world.ep_size,
        etp_rank=world.etp_rank,
        etp_size=world.etp_size,
    )


def match_params(model: Any, params: list[Param]) -> dict[str, tuple[Param, Tensor]]:
    """The model's parameters by the map's first name for each; every one is matched exactly once."""
    live = dict(model.named_parameters())
    matched = {}
    for param in params:
        name = next((name for name in param.names if name in live), None)
        assert name is not None, f"the model has no parameter {' or '.join(param.names)}"
        matched[param.names[0]] = (param, live.pop(name))
    assert not live, f"parameters that the map does not know: {sorted(live)}"
    return matched
