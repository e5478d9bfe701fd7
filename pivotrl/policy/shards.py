"""Which rank of the trainer owns which part of which Hugging Face tensor. Names, shapes and boxes; no message.

A rank's part of a tensor is a few boxes of it, each of which lies in a Megatron parameter as it is: a fused qkv
parameter holds one box of q, k and v for each key-value head, a fused gate-and-up one of each. An MoE layer's experts
count as two stacked tensors, [E, 2I, H] and [E, H, I]; a rank's experts lie in them side by side.

Every rank can say what any rank owns, so a plan over all of them needs no message.
"""

import functools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from pivotrl.policy.architecture import Architecture
from pivotrl.policy.config import ParallelConfig
from pivotrl.policy.export import layout_of, match_params
from pivotrl.policy.mapping import (
    Layout,
    Param,
    experts_of_rank,
    layers_of_stage,
    moe_names,
    params_of_rank,
    stacked_experts,
)

Shape = tuple[int, ...]
Bounds = tuple[tuple[int, int], ...]
"""(start, stop) of a box in each dimension of the whole tensor."""


@dataclass(frozen=True, slots=True)
class Block:
    """A box of a Hugging Face tensor that one rank owns."""

    tensor: str
    shape: Shape
    """Of the whole tensor."""
    bounds: Bounds
    params: tuple[str, ...]
    """First name of the Megatron parameter that holds it; of a stacked tensor, one for each expert of the box."""
    row: int = 0
    """Row of the parameter at which the box begins."""


def blocks_of_rank(arch: Architecture, layout: Layout) -> list[Block]:
    """What a rank owns of the model, in the order of its layers."""
    dense = [param for param in params_of_rank(arch, layout) if not param.expert and not param.copy_of_embedding]
    blocks: list[Block] = []
    experts = {layer: _expert_blocks(arch, layout, prefix, layer) for prefix, layer in layers_of_stage(arch, layout)}
    last_of_layer = f"{moe_names(arch).block}.gate.weight"
    for param in dense:
        blocks += _blocks(param, arch, layout)
        name = param.parts[0].name
        if arch.experts and name.endswith(last_of_layer):
            blocks += experts[int(name.split(".")[2])]
    return blocks


def _blocks(param: Param, arch: Architecture, layout: Layout) -> Iterator[Block]:
    if param.join == "qkv":
        yield from _qkv_blocks(param, arch, layout)
        return
    row = 0
    for part in param.parts:
        bounds = [(0, size) for size in part.shape]
        if part.dim is not None:
            each = part.shard_shape(layout.tp_size)[part.dim]
            first = layout.tp_rank * each
            bounds[part.dim] = (min(first, part.shape[part.dim]), min(first + each, part.shape[part.dim]))
        if all(stop > start for start, stop in bounds):  # a last shard of the vocabulary can be padding alone
            yield Block(part.name, part.shape, tuple(bounds), (param.names[0],), row)
        row += part.shard_shape(layout.tp_size)[0]


def _qkv_blocks(param: Param, arch: Architecture, layout: Layout) -> Iterator[Block]:
    rows = (arch.heads // arch.kv_heads * arch.head_dim, arch.head_dim, arch.head_dim)
    heads = arch.kv_heads // layout.tp_size
    for part, count, before in zip(param.parts, rows, (0, rows[0], rows[0] + rows[1]), strict=True):
        for local in range(heads):
            first = (layout.tp_rank * heads + local) * count
            bounds = ((first, first + count), *((0, size) for size in part.shape[1:]))
            yield Block(part.name, part.shape, bounds, (param.names[0],), local * sum(rows) + before)


def _expert_blocks(arch: Architecture, layout: Layout, prefix: str, layer: int) -> list[Block]:
    if not arch.experts:
        return []
    mine = experts_of_rank(arch, layout)
    experts, hidden = (mine.start, mine.stop), (0, arch.hidden)
    width = arch.expert_ffn // layout.etp_size
    first = layout.etp_rank * width
    name = f"model.layers.{layer}.{moe_names(arch).block}.experts."
    gate_up, down = (arch.experts, 2 * arch.expert_ffn, arch.hidden), (arch.experts, arch.hidden, arch.expert_ffn)
    fc1, fc2 = (
        tuple(f"{prefix}mlp.experts.local_experts.{j}.{fc}.weight" for j in range(len(mine)))
        for fc in ("linear_fc1", "linear_fc2")
    )
    return [
        Block(f"{name}gate_up_proj", gate_up, (experts, (first, first + width), hidden), fc1),
        Block(
            f"{name}gate_up_proj",
            gate_up,
            (experts, (arch.expert_ffn + first, arch.expert_ffn + first + width), hidden),
            fc1,
            row=width,
        ),
        Block(f"{name}down_proj", down, (experts, hidden, (first, first + width)), fc2),
    ]


@functools.cache
def tensor_shapes(arch: Architecture) -> dict[str, Shape]:
    """Every tensor that a refit moves, by name, in the order of the layers; an MoE layer's experts are two."""
    known = {block.tensor: block.shape for block in blocks_of_rank(arch, Layout())}
    assert set(stacked_experts(arch)) <= set(known)
    return known


def layouts_of_ranks(parallel: ParallelConfig, world_size: int) -> list[Layout]:
    """Every rank's coordinates in Megatron-Core's order, tp-ep-dp-pp from the fastest (RankGenerator in its
    parallel_state.py); dense and expert coordinates are counted apart."""
    dense = parallel.tensor, world_size // (parallel.tensor * parallel.pipeline)
    experts = parallel.expert_tensor, parallel.expert
    stage_size = world_size // parallel.pipeline
    assert dense[0] * dense[1] == stage_size and stage_size % (experts[0] * experts[1]) == 0, (parallel, world_size)
    return [
        Layout(
            tp_rank=rank % parallel.tensor,
            tp_size=parallel.tensor,
            pp_rank=rank // stage_size,
            pp_size=parallel.pipeline,
            ep_rank=rank // experts[0] % experts[1],
            ep_size=parallel.expert,
            etp_rank=rank % experts[0],
            etp_size=parallel.expert_tensor,
            vp_size=parallel.virtual_pipeline,
        )
        for rank in range(world_size)
    ]


class Shards:
    """A rank's live weights, to be read box by box."""

    def __init__(self, model: Any, arch: Architecture, world: Any, parallel: ParallelConfig):
        """Match the model's parameters with the map.

        Args:
            model: this rank's `Chunks`.
            world: `parallel.World` of the run.
        """
        self.arch = arch
        self.layouts = layouts_of_ranks(parallel, world.world_size)
        """Every rank's coordinates."""
        assert self.layouts[world.rank] == layout_of(world), "Megatron numbers its ranks otherwise"
        matched = match_params(model, params_of_rank(arch, self.layouts[world.rank]))
        self._params: Mapping[str, Tensor] = {name: tensor.detach() for name, (_, tensor) in matched.items()}
        dtypes = {tensor.dtype for tensor in self._params.values()}
        assert len(dtypes) == 1, f"the parameters have several types: {dtypes}"
        self.dtype: Any = next(iter(dtypes))
        """Of every weight."""

    @property
    def stages(self) -> int:
        """Pipeline stages."""
        return self.layouts[0].pp_size

    def blocks(self, rank: int) -> list[Block]:
        """What a rank of the world owns (pure)."""
        return blocks_of_rank(self.arch, self.layouts[rank])

    @property
    def device(self) -> Any:
        """Where the weights are."""
        return next(iter(self._params.values())).device

    def check(self, block: Block) -> str | None:
        """What is wrong with the live tensors of one of this rank's blocks, if anything."""
        inner = block.bounds[1:] if len(block.shape) == 3 else block.bounds
        for name in block.params:
            live = self._params.get(name)
            if live is None:
                return f"{block.tensor} should lie in {name}, which this rank's policy does not have"
            if live.dtype != self.dtype or not live.untyped_storage().nbytes():
                state = (
                    f"of {live.dtype}" if live.untyped_storage().nbytes() else "without memory, as of a policy asleep"
                )
                return f"{block.tensor} should lie in {name} of {self.dtype}, which is {state}"
            fits = live.dim() == len(inner) and block.row + inner[0][1] - inner[0][0] <= live.shape[0]
            fits &= tuple(live.shape[1:]) == tuple(stop - start for start, stop in inner[1:])
            if not fits:
                return f"{block.tensor} should lie in {name}, which is {list(live.shape)}"
        return None

    def read(self, block: Block, bounds: Bounds) -> list[Tensor]:
        """Views of live parameters that make up a box of one of this rank's blocks.

        Returns:
            One view of the box's shape; of a stacked tensor, one for each expert, without the first dimension.
        """
        stacked = len(block.shape) == 3
        origin = block.bounds
        inner = bounds[1:] if stacked else bounds
        base = origin[1:] if stacked else origin
        shift = (block.row, *(0 for _ in base[1:]))
        index = tuple(
            slice(start - first + extra, stop - first + extra)
            for (start, stop), (first, _), extra in zip(inner, base, shift, strict=True)
        )
        if not stacked:
            return [self._params[block.params[0]][index]]
        experts = range(bounds[0][0] - origin[0][0], bounds[0][1] - origin[0][0])
        return [self._params[block.params[j]][index] for j in experts]
