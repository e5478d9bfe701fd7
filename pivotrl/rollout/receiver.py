"""Where what arrives for this rank's engine is written: boxes of landings, opened and closed as they fill."""

from collections.abc import Iterable, Mapping

import torch
from torch import Tensor

from pivotrl.policy.shards import Bounds
from pivotrl.rollout.landings import Landing
from pivotrl.rollout.plan import Piece
from pivotrl.rollout.transfers import Transfer, volume


class Receiver:
    """The engine's side of refits, made once; nothing is open between two."""

    def __init__(self, landings: Mapping[str, Landing], pieces: Iterable[Piece]):
        self._landings = landings
        self._pieces = {(piece.source, bounds_of(piece)): piece for piece in pieces}
        self._open: dict[str, Tensor] = {}
        self._left: dict[str, int] = {}

    @property
    def needs(self) -> set[tuple[str, Bounds]]:
        """Boxes that the live engine takes, by tensor."""
        return {(name, bounds) for name, bounds in self._pieces if volume(bounds)}

    def staging_bytes(self, stages: int) -> int:
        """At most what landings take at a time: one layer's of each pipeline stage are open, and one is packed."""
        layers: dict[str, int] = {}
        for name, landing in self._landings.items():
            layer = ".".join(name.split(".")[:3]) if ".layers." in name else name
            layers[layer] = layers.get(layer, 0) + landing.opened
        packed = max((landing.packed for landing in self._landings.values()), default=0)
        return stages * max(layers.values(), default=0) + 2 * packed

    def place(self, move: Transfer, bounds: Bounds) -> Tensor:
        """The view of the engine's tensor in which a box of a transfer lands."""
        piece = self._pieces[move.tensor, move.need]
        target = piece.target
        if target not in self._open:
            self._open[target] = self._landings[target].open()
            self._left[target] = self._landings[target].elements
        inner = tuple(
            slice(to.start + start - first, to.start + stop - first)
            for to, (start, stop), (first, _) in zip(piece.target_box, bounds, move.need, strict=True)
        )
        return self._open[target][inner]

    def landed(self, move: Transfer, bounds: Bounds) -> None:
        """Count a box as written; what is full is brought into the kernels' form."""
        target = self._pieces[move.tensor, move.need].target
        self._left[target] -= volume(bounds)
        if self._left[target] == 0:
            del self._left[target]
            self._landings[target].close(self._open.pop(target))

    def blank(self) -> None:
        """NaN wherever a refit must write, in the form that the kernels read; padding as it has to be."""
        for landing in self._landings.values():
            landing.close(landing.open().fill_(torch.nan))

    def forget(self) -> None:
        """Drop what is half written, after a refit that failed."""
        self._open, self._left = {}, {}


def bounds_of(piece: Piece) -> Bounds:
    """A piece's box in the whole tensor."""
    return tuple((part.start, part.stop) for part in piece.source_box)
