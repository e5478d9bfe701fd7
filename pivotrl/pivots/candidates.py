"""Which turns are profiled: the training split, thinned to `pivots.limit` by a hash, in units of whole trajectories."""

import heapq
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from pivotrl.config import RunConfig
from pivotrl.trajectories.ids import stable_hash
from pivotrl.trajectories.records import Rejected, Turn
from pivotrl.trajectories.turns import TurnReader

MOST_SIZES = 4
"""Times `pivots.chunk` that a unit may have of turns."""


@dataclass(frozen=True)
class Survey:
    """What one pass over the files found, before anything is sampled."""

    reader: TurnReader
    """With its counts whole."""
    count: int
    """Turns to profile."""
    heldout: int
    """Turns of trajectories that are kept out."""
    left_out: int
    """Turns that `pivots.limit` leaves out."""
    largest_hash: int | None
    """Turns whose hash is above this are left out; None: none are."""


def survey(config: RunConfig) -> Survey:
    """Read all files once; memory stays flat but for `pivots.limit` integers.

    Raises ValueError for a file that cannot be used. The caller asks `reader.check_bad_share`.
    """
    reader = TurnReader(config.trajectories, config.seed)
    limit = config.pivots.limit
    kept: list[int] = []  # a heap of negated hashes: the largest of the kept ones is on top
    usable = heldout = 0
    for item in reader:
        if isinstance(item, Rejected):
            continue
        if item.split != "train":
            heldout += 1
            continue
        usable += 1
        if limit is not None:
            place = heapq.heappush if len(kept) < limit else heapq.heappushpop
            place(kept, -_rank(config, item))
    count = usable if limit is None else len(kept)
    largest = -kept[0] if count < usable else None
    return Survey(reader, count, heldout, usable - count, largest)


def candidates(config: RunConfig, found: Survey) -> Iterator[Turn]:
    """The turns to profile, in file order; the same in every pass."""
    for item in TurnReader(config.trajectories, config.seed):
        if isinstance(item, Rejected) or item.split != "train":
            continue
        if found.largest_hash is None or _rank(config, item) <= found.largest_hash:
            yield item


@dataclass(frozen=True)
class Unit:
    """Turns that one engine samples together."""

    first: int
    """Place of the first of them among all candidates, from 0."""
    turns: list[Turn]

    @property
    def places(self) -> range:
        return range(self.first, self.first + len(self.turns))


def units(turns: Iterator[Turn], size: int) -> Iterator[Unit]:
    """Consecutive units of at least `size` turns that end where a trajectory does, so that turns which share a prefix
    meet in one engine's cache. A trajectory that would make a unit longer than `MOST_SIZES * size` is cut."""
    first, unit = 0, list[Turn]()
    for turn in turns:
        ends = bool(unit) and turn.trajectory_id != unit[-1].trajectory_id
        if (ends and len(unit) >= size) or len(unit) == MOST_SIZES * size:
            yield Unit(first, unit)
            first, unit = first + len(unit), []
        unit.append(turn)
    if unit:
        yield Unit(first, unit)


def read_rejections(config: RunConfig, found: Survey) -> Iterator[dict[str, Any]]:
    """Rows and turns that reading could not use, in file order."""
    if not found.reader.rejected:
        return
    for item in TurnReader(config.trajectories, config.seed):
        if isinstance(item, Rejected):
            yield item.to_json()


def _rank(config: RunConfig, turn: Turn) -> int:
    return stable_hash("limit", config.seed, turn.id)
