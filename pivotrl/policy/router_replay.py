"""Router replay: a pass sends tokens to the experts that an earlier pass, or the engine, sent them to.

A router near a tie picks other experts after any change of rounding or weights, and a token then gets quite another
log-prob. Replayed, sampler and trainer (or the old policy and the updated one) differ by their arithmetic alone. Only
the choice is replayed: the weights of the chosen experts still come from the router's present scores, so the router
keeps its gradient.

Legend: T = tokens of a micro-batch, P = those of them on this rank, M = layers of this rank, K = experts of a token.
"""

import contextlib
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor

from pivotrl.policy.architecture import Architecture
from pivotrl.policy.packing import MicroBatch, Sample
from pivotrl.policy.parallel import World
from pivotrl.policy.routes import lay, smallest_type

if TYPE_CHECKING:
    from pivotrl.policy.layer_replay import LayerReplay

Mode = Literal["none", "trainer", "engine"]


def check(mode: Mode, arch: Architecture, device_kind: str) -> None:
    """Stop where a run cannot have its `training.router_replay`.

    Raises:
        ValueError: the model has no experts, or the engine cannot return routes on this device.
    """
    if mode != "none" and not arch.experts:
        raise ValueError(f"training.router_replay is {mode}, but the model has no experts: set it to none")
    if mode == "engine" and device_kind == "cpu":
        raise ValueError(
            "training.router_replay is engine, but vLLM returns routes on GPUs only: set it to trainer, which replays "
            "those of the pass for the old log-probs, or to none"
        )


class PolicyReplay:
    """Router replay of a policy: what its passes record and replay, by `training.router_replay`.

    none: nothing.
    trainer: the old policy's pass records, and the updates replay it. With one update to a batch there is no such pass:
        the update's own choice is the old policy's, and nothing is replayed.
    engine: the old policy's pass and the updates replay the samples' own routes, so that the importance weight and the
        ratio are between distributions on the same experts. Tokens without a route go where the router sends them.

    The reference policy always routes by itself. Nothing is sent between ranks: the old policy's pass and the updates
    have the same micro-batches on every rank.
    """

    def __init__(self, model: torch.nn.Module, arch: Architecture, mode: Mode, world: World, sequence_parallel: bool):
        """Take the place of `router_replay` in every router of the model (of one chunk or several).

        Args:
            sequence_parallel: each tensor-parallel rank routes T / TP tokens of a micro-batch, else all T.
        """
        self.mode, self.world = mode, world
        self._shard = (world.tp_rank, world.tp_size) if sequence_parallel else (0, 1)
        self._arch = arch
        self.layers: dict[int, LayerReplay] = {}
        """By the layer's index in the whole model, from 0."""
        self._recorded_for: list[Any] | None = None
        self._action: Literal["record", "replay"] | None = None
        self._counts = (0, 0)
        if mode == "none":
            return
        dtype = torch.from_numpy(np.empty(0, smallest_type(arch.experts))).dtype
        from pivotrl.policy.layer_replay import install

        self.layers = install(model, dtype)

    def old_policy(self) -> contextlib.AbstractContextManager[None]:
        """Around the pass for the old log-probs."""
        return self.replaying() if self.mode == "engine" else self.recording()

    def recording(self) -> contextlib.AbstractContextManager[None]:
        """Passes in here keep their routes, the last one's for `replaying` (mode trainer)."""
        return self._acting("record")

    def replaying(self) -> contextlib.AbstractContextManager[None]:
        """Passes in here replay: what was recorded last, or (mode engine) the samples' routes."""
        return self._acting("replay")

    def take(self, other: "PolicyReplay") -> None:
        """Replay from here on what another policy of the same layout recorded, on the same batch (mode trainer)."""
        self._recorded_for = other._recorded_for
        for index, layer in self.layers.items():
            layer.recorded = other.layers[index].recorded

    def forget(self) -> None:
        """Drop what was recorded: passes that replay from here on find nothing (mode trainer)."""
        self._recorded_for = None
        for layer in self.layers.values():
            layer.recorded = []

    @contextlib.contextmanager
    def _acting(self, action: Literal["record", "replay"]) -> Iterator[None]:
        assert self._action is None, "one at a time"
        self._action = action
        try:
            yield
        finally:
            self._action = None

    @contextlib.contextmanager
    def over(self, samples: Sequence[Sample], batches: Sequence[MicroBatch]) -> Iterator[None]:
        """Around one pass over these micro-batches of these samples."""
        if self.mode == "none" or self._action is None:
            yield
            return
        segments = [batch.segments for batch in batches]
        targets: dict[int, Sequence[Tensor]] | None
        if self._action == "record":
            targets = None
        elif self.mode == "engine":
            targets = self._from_samples(samples, batches)
        elif self._recorded_for is not None:
            assert self._recorded_for == segments, "the routes were recorded on other micro-batches"
            targets = {index: layer.recorded for index, layer in self.layers.items()}
            tokens = _tokens(batches)
            self._counts = (tokens, tokens)
        else:
            self._counts = (0, _tokens(batches))
            yield
            return
        with contextlib.ExitStack() as stack:
            for index, layer in self.layers.items():
                stack.enter_context(layer.over(len(batches), None if targets is None else targets[index]))
            yield
        if targets is None:
            self._recorded_for = segments

    def _from_samples(self, samples: Sequence[Sample], batches: Sequence[MicroBatch]) -> dict[int, list[Tensor]]:
        layers = list(self.layers)
        routes, lengths = [sample.routes for sample in samples], [len(sample.prompt_ids) for sample in samples]
        targets: dict[int, list[Tensor]] = {index: [] for index in layers}
        known = 0
        rank, size = self._shard
        for batch in batches:
            tokens = batch.input_ids.shape[1]
            row_TMK = lay(batch.segments, routes, lengths, layers, (tokens, self._arch.top_k))
            assert row_TMK.max(initial=-1) < self._arch.experts, "a route to an expert that the model has not"
            known += int((row_TMK[:, :1, 0] >= 0).sum())
            mine_PMK = row_TMK[rank * tokens // size : (rank + 1) * tokens // size]
            for place, index in enumerate(layers):
                targets[index].append(torch.from_numpy(np.ascontiguousarray(mine_PMK[:, place])))
        self._counts = (known, _tokens(batches))
        return targets

    def metrics(self) -> dict[str, float]:
        """`replayed_share` of the last replaying pass, over its tokens on all ranks (collective); none in mode none."""
        if self.mode == "none":
            return {}
        counts = torch.tensor(self._counts, dtype=torch.float64)
        dist.all_reduce(counts, group=self.world.object_group)
        return {"replayed_share": (counts[0] / counts[1].clamp(min=1)).item()}


def _tokens(batches: Sequence[MicroBatch]) -> int:
    """Tokens that are no padding."""
    return sum(segment.length for batch in batches for segment in batch.segments)
