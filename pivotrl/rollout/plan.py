"""Which part of which exported tensor lands where in the engine. Names and shapes only; checked before a byte moves."""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

Shape = tuple[int, ...]
Box = tuple[slice, ...]


class RefitError(RuntimeError):
    """The engine's weights are not the policy's, or would not be: sampling must not go on."""


@dataclass(frozen=True, slots=True)
class Piece:
    """A box of an exported tensor that this rank's engine holds as a box of one of its own tensors."""

    source: str
    """Name of the exported tensor."""
    shape: Shape
    """Of the whole exported tensor."""
    source_box: Box
    target: str
    """Name of the landing in the engine."""
    target_box: Box


@dataclass(frozen=True, slots=True)
class Plan:
    """A checked plan: every exported tensor is taken, every landing is filled once."""

    by_source: Mapping[str, Sequence[Piece]]
    pieces_of_target: Mapping[str, int]
    """Pieces that a landing waits for."""
    shapes: Mapping[str, Shape]


def box(*bounds: tuple[int, int]) -> Box:
    """A box from its (start, stop) in each dimension."""
    return tuple(slice(start, stop) for start, stop in bounds)


def make_plan(exported: Mapping[str, Shape], pieces: Iterable[Piece], landings: Mapping[str, int]) -> Plan:
    """Match what the policy exports with what the engine takes.

    Args:
        exported: names and shapes of the policy's export.
        pieces: what the engine takes, and from which names.
        landings: elements that each of the engine's tensors expects (its padding left out).

    Raises:
        RefitError: a tensor is missing, unknown or of another shape, or a landing is not covered exactly.
    """
    by_source: dict[str, list[Piece]] = defaultdict(list)
    filled: dict[str, list[int]] = defaultdict(list)
    for piece in pieces:
        if piece.source not in exported:
            raise RefitError(
                f"refit: the engine needs {piece.source} (for {piece.target}), which the policy does not export"
            )
        if tuple(exported[piece.source]) != piece.shape:
            raise RefitError(
                f"refit: {piece.source} is {list(exported[piece.source])} in the policy, "
                f"{list(piece.shape)} in the engine"
            )
        source, target = _volume(piece.source_box), _volume(piece.target_box)
        assert source == target, (piece, source, target)
        by_source[piece.source].append(piece)
        filled[piece.target].append(target)
    unknown = sorted(set(exported) - set(by_source))
    if unknown:
        raise RefitError(f"refit: the policy exports {unknown[0]}, which has no place in the engine")
    for name, expected in landings.items():
        if sum(filled[name]) != expected:
            raise RefitError(
                f"refit: {sum(filled[name])} of the {expected} elements of the engine's {name} are covered"
            )
    return Plan(dict(by_source), {name: len(parts) for name, parts in filled.items()}, dict(exported))


def _volume(bounds: Box) -> int:
    return math.prod(part.stop - part.start for part in bounds)
