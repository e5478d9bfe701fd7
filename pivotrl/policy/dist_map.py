"""Where every Hugging Face tensor lies in a Megatron `torch_dist` checkpoint. Pure: names and shapes only.

Megatron stores the layers of a model under one name, with the layer's index as a first dimension, and the experts with
theirs as a second; norms have the names of Transformer Engine's fused layers. A checkpoint holds the same tensors
whatever layout wrote it, cut into other chunks.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from pivotrl.policy.architecture import Architecture
from pivotrl.policy.mapping import HfTensor, Layout, Param, params_of_rank

_EXPERT = re.compile(r"decoder\.layers\.(\d+)\.mlp\.experts\.local_experts\.(\d+)\.(linear_fc[12])\.weight")
_LAYER = re.compile(r"decoder\.layers\.(\d+)\.(.+)")


@dataclass(frozen=True, slots=True)
class DistParam:
    """One Megatron parameter of the whole model, in a checkpoint."""

    param: Param
    key: str
    index: tuple[int, ...]
    """Its layer, and its expert, in the first dimensions of the stored tensor; empty outside the layers."""
    stored_shape: tuple[int, ...]
    """Of the tensor under `key`."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Of the parameter itself."""
        return self.stored_shape[len(self.index) :]

    def boxes(self) -> Iterator[tuple[tuple[HfTensor, ...], tuple[int, ...], tuple[int, ...]]]:
        """Chunks to store: what is in each, its offset in the stored tensor, and its shape there.

        Gate and up are a chunk each, as Megatron stores them; q, k and v are interleaved, and one.
        """
        ones = (1,) * len(self.index)
        parts = [(part,) for part in self.param.parts] if self.param.join == "cat" else [self.param.parts]
        row = 0
        for chunk in parts:
            rows = sum(part.shape[0] for part in chunk)
            offset = (*self.index, row, *(0 for _ in self.shape[1:]))
            yield chunk, offset, (*ones, rows, *self.shape[1:])
            row += rows


def dist_params(arch: Architecture) -> list[DistParam]:
    """Every parameter of the model, in the order of the layers."""
    return [_place(arch, param) for param in params_of_rank(arch, Layout())]


def _place(arch: Architecture, param: Param) -> DistParam:
    first = param.parts[0]
    shape = (sum(part.shape[0] for part in param.parts), *first.shape[1:])
    expert = _EXPERT.fullmatch(param.names[0])
    if expert:
        layer, number, fc = expert.groups()
        key = f"decoder.layers.mlp.experts.experts.{fc}.weight"
        return DistParam(param, key, (int(layer), int(number)), (arch.layers, arch.experts, *shape))
    name = param.names[-1]
    inside = _LAYER.fullmatch(name)
    if inside:
        return DistParam(param, f"decoder.layers.{inside[2]}", (int(inside[1]),), (arch.layers, *shape))
    return DistParam(param, name, (), shape)
