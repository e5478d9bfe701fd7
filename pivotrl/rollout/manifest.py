"""The manifest of a refit: what moves from whom to whom, and whether both sides still hold it, agreed on by all ranks
before the first byte of every sync. Names, shapes, types and owners; no values."""

import hashlib
from collections.abc import Iterable, Mapping
from typing import Any

import torch.distributed as dist
from torch import nn

from pivotrl.policy.shards import Block
from pivotrl.rollout.engine import Engine
from pivotrl.rollout.landings import Landing, Rows
from pivotrl.rollout.plan import RefitError
from pivotrl.rollout.transfers import Transfers


class Manifest:
    """What one rank's policy and engine held when the plan was made."""

    def __init__(
        self, transfers: Transfers, blocks: Iterable[Block], model: nn.Module, landings: Mapping[str, Landing]
    ):
        self._blocks, self._model = tuple(blocks), model
        self._places = {name: landing.tensor.data_ptr() for name, landing in landings.items() if _in_place(landing)}
        self._engine = {name: (parameter.shape, parameter.dtype) for name, parameter in model.named_parameters()}
        self.lines = lines_of(transfers)
        """Every transfer of all ranks."""
        self.fingerprint = hashlib.sha256("\n".join(self.lines).encode()).hexdigest()
        """Of `lines`: by it ranks can tell that they made the same plan."""

    def difference(self, shards: Any) -> str | None:
        """What of this rank's live tensors is not as the plan has it; the first one is named."""
        for block in self._blocks:
            if (wrong := shards.check(block)) is not None:
                return wrong
        live = dict(self._model.named_parameters())
        for name in sorted(live.keys() ^ self._engine.keys()):
            return f"the engine {'has' if name in live else 'lost'} {name} since its first refit"
        for name, parameter in live.items():
            shape, dtype = self._engine[name]
            if (parameter.shape, parameter.dtype) != (shape, dtype):
                return (
                    f"the engine's {name} is {list(parameter.shape)} of {parameter.dtype}, and was {list(shape)} of "
                    f"{dtype} at its first refit"
                )
            if parameter.data_ptr() != self._places.get(name, parameter.data_ptr()):
                return f"the engine's {name} is another tensor than the one that refits write to"
        return None


def lines_of(transfers: Transfers) -> list[str]:
    """A line for each transfer: tensor, its shape, the box, bytes of an element, owner and taker."""
    return [
        f"{move.tensor} {list(move.block.shape)} {move.bounds} {transfers.itemsize} {move.owner}>{move.taker}"
        for move in transfers.moves
    ]


def agree(engine: Engine, wrong: str | None, manifest: Manifest | None, more: Any = None) -> list[Any]:
    """Hear every rank before anything is sent (collective over the world).

    Args:
        wrong: what this rank has found, without its number.
        manifest: of this rank; None where `wrong` says why there is none.
        more: what the others want to know besides.

    Returns:
        Every rank's `more`.

    Raises:
        RefitError: on every rank: one of them found something, or made another plan. The message names the tensor.
    """
    mine = (wrong, manifest.fingerprint if manifest else "", more)
    everyone: list[Any] = [mine] * engine.world_size
    if engine.world_size > 1:
        dist.all_gather_object(everyone, mine, group=engine.object_group)
    for rank, (theirs, _, _) in enumerate(everyone):
        if theirs is not None:
            raise RefitError(f"refit: {theirs}" if rank == engine.rank else f"refit: {theirs} (rank {rank})")
    other = next((rank for rank, (_, theirs, _) in enumerate(everyone) if theirs != everyone[0][1]), None)
    if other is not None:
        assert manifest is not None
        raise RefitError(_differing(engine, other, manifest.lines))
    return [their_more for _, _, their_more in everyone]


def _differing(engine: Engine, other: int, lines: list[str]) -> str:
    """Where rank 0 and another one planned differently (collective: only now do the plans themselves travel)."""
    everyone: list[Any] = [None] * engine.world_size
    dist.all_gather_object(everyone, lines if engine.rank in (0, other) else None, group=engine.object_group)
    first, theirs = (set(everyone[rank]) for rank in (0, other))
    line = next((line for rank in (0, other) for line in everyone[rank] if line not in first & theirs), "their order")
    return f"refit: rank {other} planned other transfers than rank 0, and they differ in {line}"


def _in_place(landing: Landing) -> bool:
    return type(landing) in (Landing, Rows)
