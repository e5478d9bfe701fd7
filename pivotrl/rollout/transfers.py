"""Which rank sends which part of which tensor to which rank, and in which round. Metadata only, the same on every rank.

Each rank's engine receives exactly the boxes that it needs, each from a rank that owns it: itself where it does, else a
rank of its node, else any; among those, the one with the fewest bytes to send so far. Tensors go in the order of the
layers of each pipeline stage, the stages side by side, so that every owner is busy and few layers are open at a time.

Bytes travel in rounds. In a round a rank sends and receives at most a region's bytes; a longer part is cut along its
dimensions. Rounds are numbered over all ranks, and a rank goes through its own in ascending order, so waiting never
closes a circle.
"""

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from pivotrl.policy.shards import Block, Bounds, Shape
from pivotrl.rollout.plan import RefitError

ALIGN = 64
"""Bytes: every part of a message begins at a multiple."""
Link = Literal["local", "node", "network"]


@dataclass(frozen=True, slots=True)
class Transfer:
    """A box that one rank owns, whole, and one needs, whole."""

    tensor: str
    bounds: Bounds
    need: Bounds
    """The box of the engine's in which it lies."""
    block: Block
    """The box of the owner's in which it lies."""
    owner: int
    taker: int


@dataclass(frozen=True, slots=True)
class Chunk:
    """What of a transfer travels in one round, and where it lies in the message from owner to taker."""

    transfer: int
    bounds: Bounds
    offset: int
    """In bytes, in the region of the sender's and of the receiver's message."""


@dataclass(frozen=True, slots=True)
class Transfers:
    """Every transfer of a refit, in the order in which they land."""

    moves: tuple[Transfer, ...]
    itemsize: int
    ranks_per_node: int
    first_alike: tuple[int, ...]
    """For each transfer, the first one of the same box, which another replica may own."""

    def nbytes(self, move: Transfer) -> int:
        """Bytes of a transfer."""
        return volume(move.bounds) * self.itemsize

    def link(self, move: Transfer) -> Link:
        """What it goes over."""
        if move.owner == move.taker:
            return "local"
        return "node" if move.owner // self.ranks_per_node == move.taker // self.ranks_per_node else "network"


@dataclass(frozen=True, slots=True)
class Round:
    """What one rank does in one round: its messages to and from others, and what it copies for itself, in order."""

    number: int
    sends: Mapping[int, tuple[Chunk, ...]]
    """By receiver."""
    receives: Mapping[int, tuple[Chunk, ...]]
    """By sender."""
    lands: tuple[tuple[int, Chunk], ...]
    """(owner, chunk), in the order in which they land; this rank's own copies are among them."""


def make_transfers(
    owned: Sequence[Sequence[Block]],
    needed: Sequence[Mapping[str, Sequence[Bounds]]],
    itemsize: int,
    ranks_per_node: int,
) -> Transfers:
    """Find an owner for every part of what every rank needs.

    Args:
        owned: for each rank, `shards.blocks_of_rank`.
        needed: for each rank, boxes by tensor.
        itemsize: bytes of an element.

    Raises:
        RefitError: no rank owns, or none needs, some part of a tensor; or sizes differ.
    """
    owners: dict[str, dict[Bounds, list[int]]] = defaultdict(lambda: defaultdict(list))
    blocks: dict[tuple[int, str, Bounds], Block] = {}
    order: dict[str, tuple[int, int]] = {}
    for rank, mine in enumerate(owned):
        for index, block in enumerate(mine):
            owners[block.tensor][block.bounds].append(rank)
            blocks[rank, block.tensor, block.bounds] = block
            order.setdefault(block.tensor, (index, rank))
    takers = {name: [] for name in order}
    for rank, boxes in enumerate(needed):
        for name, bounds in boxes.items():
            if name not in takers:
                raise RefitError(f"refit: the engine of rank {rank} needs {name}, which no rank of the policy owns")
            takers[name] += [(rank, one) for one in bounds]
    moves: list[Transfer] = []
    sent = [0] * len(owned)
    for name in sorted(order, key=order.__getitem__):
        if not takers[name]:
            raise RefitError(f"refit: the policy has {name}, which no engine needs")
        of_taker: dict[int, list[Transfer]] = defaultdict(list)
        for taker, need in takers[name]:
            covered = 0
            for bounds, ranks in owners[name].items():
                part = overlap(bounds, need)
                if part is None:
                    continue
                covered += volume(part)
                owner = _nearest(ranks, taker, sent, ranks_per_node)
                if owner != taker:
                    sent[owner] += volume(part) * itemsize
                of_taker[taker].append(Transfer(name, part, need, blocks[owner, name, bounds], owner, taker))
            if covered != volume(need):
                raise RefitError(
                    f"refit: the policy's ranks own {covered} of the {volume(need)} elements of {name} that rank "
                    f"{taker}'s engine needs"
                )
        moves += _take_turns(of_taker)
    first: dict[tuple[str, Bounds], int] = {}
    alike = tuple(first.setdefault((move.tensor, move.bounds), index) for index, move in enumerate(moves))
    return Transfers(tuple(moves), itemsize, ranks_per_node, alike)


def _take_turns(of_taker: Mapping[int, list[Transfer]]) -> Iterator[Transfer]:
    """One tensor's transfers in an order in which the takers ask different owners at the same time."""
    for turn in range(max(map(len, of_taker.values()))):
        for taker, moves in of_taker.items():
            if turn < len(moves):
                yield moves[(turn + taker) % len(moves)]


def _nearest(ranks: list[int], taker: int, sent: list[int], ranks_per_node: int) -> int:
    if taker in ranks:
        return taker
    near = [rank for rank in ranks if rank // ranks_per_node == taker // ranks_per_node]
    return min(near or ranks, key=lambda rank: (sent[rank], rank))


def make_rounds(transfers: Transfers, rank: int, region: int) -> list[Round]:
    """What one rank does, round by round.

    Args:
        region: bytes that a rank may send, and may receive, in a round.
    """
    current: dict[int, int] = defaultdict(int)  # the round in which a taker receives, which never falls
    sent: dict[tuple[int, int], int] = defaultdict(int)
    received: dict[tuple[int, int], int] = defaultdict(int)
    mine: dict[int, list[tuple[int, int, Chunk]]] = defaultdict(list)
    for index, move in enumerate(transfers.moves):
        if move.owner == move.taker:
            if move.taker == rank:
                mine[current[rank]].append((rank, rank, Chunk(index, move.bounds, 0)))
            continue
        for bounds in cut(move.bounds, region // transfers.itemsize):
            size = -(-volume(bounds) * transfers.itemsize // ALIGN) * ALIGN
            number = current[move.taker]
            while sent[move.owner, number] + size > region or received[move.taker, number] + size > region:
                number += 1
            current[move.taker] = number
            sent[move.owner, number] += size
            received[move.taker, number] += size
            if rank in (move.owner, move.taker):
                mine[number].append((move.owner, move.taker, Chunk(index, bounds, 0)))
    return [_round(number, rank, mine[number], transfers) for number in sorted(mine)]


def _round(number: int, rank: int, parts: list[tuple[int, int, Chunk]], transfers: Transfers) -> Round:
    """Lay a round's chunks out: one stretch for each peer, in the peers' order."""
    sends: dict[int, list[Chunk]] = defaultdict(list)
    receives: dict[int, list[Chunk]] = defaultdict(list)
    for owner, taker, chunk in parts:
        if owner != taker:
            (sends[taker] if owner == rank else receives[owner]).append(chunk)
    placed: dict[tuple[int, int, Bounds], Chunk] = {}
    for side in (sends, receives):
        offset = 0
        for peer in sorted(side):
            for place, chunk in enumerate(side[peer]):
                laid = Chunk(chunk.transfer, chunk.bounds, offset)
                side[peer][place] = laid
                placed[peer, chunk.transfer, chunk.bounds] = laid
                offset += -(-volume(chunk.bounds) * transfers.itemsize // ALIGN) * ALIGN
    lands = tuple(
        (owner, chunk if owner == rank else placed[owner, chunk.transfer, chunk.bounds])
        for owner, taker, chunk in parts
        if taker == rank
    )
    return Round(
        number,
        {peer: tuple(sends[peer]) for peer in sorted(sends)},
        {peer: tuple(receives[peer]) for peer in sorted(receives)},
        lands,
    )


def cut(bounds: Bounds, most: int) -> Iterator[Bounds]:
    """Boxes of at most `most` elements that make up a box: stretches of its first dimension, cut further if need be."""
    if volume(bounds) <= most:
        yield bounds
        return
    (start, stop), rest = bounds[0], bounds[1:]
    each = max(1, most // max(1, volume(rest)))
    for first in range(start, stop, each):
        if volume(rest) > most:
            assert rest, (bounds, most)
            for inner in cut(rest, most):
                yield ((first, first + 1), *inner)
        else:
            yield ((first, min(first + each, stop)), *rest)


def overlap(a: Bounds, b: Bounds) -> Bounds | None:
    """What two boxes share."""
    found = tuple((max(x[0], y[0]), min(x[1], y[1])) for x, y in zip(a, b, strict=True))
    return found if all(stop > start for start, stop in found) else None


def volume(bounds: Bounds) -> int:
    """Elements of a box."""
    return math.prod(stop - start for start, stop in bounds)


def shape_of(bounds: Bounds) -> Shape:
    """Extents of a box."""
    return tuple(stop - start for start, stop in bounds)
