"""Which samples share a copy of their prompt, and in which micro-batch of which rank they are.

The plan is a function of the samples alone, so every rank makes the same one and none waits in a collective for
another. A piece is a tuple of indices of samples with one prompt, which the micro-batch holds once.
"""

import heapq
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from pivotrl.policy.cost import Cost, trunk_tokens
from pivotrl.policy.packing import Piece, Sample

LEAST_SAVED = 0.05
"""Share of the trunk's tokens that sharing prompts must save, for a batch to be packed in trees at all. Plain rows have
the better kernels: one call of attention, where Transformer Engine is present a fused one."""

TOKENS = Cost(token=1.0, pair=0.0, response=0.0)


@dataclass(frozen=True, slots=True)
class Plan:
    """The micro-batches of a batch of samples."""

    ranks: list[list[list[Piece]]]
    """[data-parallel rank][micro-batch] -> its pieces: equally many on every rank, and none in a dummy."""
    packing: Literal["prompt_once", "plain"]
    gain: float
    """Tokens of the samples apart, for each token that goes through the trunk."""
    note: str | None = None
    """Why it is plain where prompt_once was asked for."""


def assign(
    samples: Sequence[Sample],
    budget: int,
    num_ranks: int,
    packing: Literal["prompt_once", "plain"] = "prompt_once",
    cost: Cost = TOKENS,
    multiple_of: int = 1,
) -> Plan:
    """Micro-batches of at most `budget` tokens for each of `num_ranks` data-parallel ranks.

    Samples without a response are left out. With `prompt_once`, samples of one prompt share it, as many as the budget
    allows; a sample that is longer than the budget takes with it what fits into its own length. Expert-parallel ranks
    run in lockstep, so the j-th micro-batches of all ranks are made to cost about the same.

    Args:
        samples: the same list on every rank.
        budget: tokens of a micro-batch; one longer sample gets a micro-batch of its own.
        packing: `prompt_once` becomes `plain` where it saves less than LEAST_SAVED of the tokens.
        cost: what balances the ranks.
        multiple_of: of which the number of a rank's micro-batches is a multiple; the interleaved pipeline schedule
            takes them in runs of as many as there are stages.
    """
    lengths = {i: (len(s.prompt_ids), len(s.response_ids)) for i, s in enumerate(samples) if s.response_ids}
    planner = _Planner(lengths, budget, num_ranks, multiple_of, cost)
    apart: list[Piece] = [(index,) for index in lengths]
    pieces, note = apart, None
    if packing == "prompt_once" and apart:
        pieces = [piece for tree in _trees(samples) for piece in planner.split(tree)]
        saved = 1 - planner.tokens(pieces) / planner.tokens(apart)
        if saved < LEAST_SAVED:
            pieces, packing = apart, "plain"
            note = (
                f"training.packing prompt_once would save {saved:.1%} of the tokens here, less than {LEAST_SAVED:.0%}: "
                "packed plain. Prompts shorter than their responses gain little, and where a prompt and its responses "
                f"are longer than training.micro_batch_tokens, {budget}, a higher one gains more"
            )
    slots = planner.place(pieces, may_split=packing == "prompt_once")
    placed = [piece for slot in slots for piece in slot]
    gain = planner.tokens(apart) / planner.tokens(placed) if apart else 1.0
    return Plan(planner.deal(slots), packing, gain, note)


def partition(lengths: Sequence[int], budget: int) -> list[list[int]]:
    """Indices of lengths in bins of at most `budget` tokens (first fit, longest first); a longer one is alone."""
    bins: list[list[int]] = []
    room: list[int] = []
    for index in sorted(range(len(lengths)), key=lambda i: (-lengths[i], i)):
        fit = next((b for b, free in enumerate(room) if free >= lengths[index]), None)
        if fit is None:
            bins.append([])
            room.append(budget)
            fit = len(bins) - 1
        bins[fit].append(index)
        room[fit] -= lengths[index]
    return bins


def spread(weights: Sequence[float], lengths: Sequence[int], count: int, budget: int) -> list[list[int]] | None:
    """Indices in `count` bins of about equal weight (the heaviest first, each into the lightest bin that has room).

    A bin has room for what keeps it within `budget` tokens; an empty one has room for anything. None where one index
    finds no room.
    """
    bins: list[list[int]] = [[] for _ in range(count)]
    tokens = [0] * count
    lightest = [(0.0, b) for b in range(count)]
    for index in sorted(range(len(weights)), key=lambda i: (-weights[i], i)):
        full = []
        while lightest and bins[lightest[0][1]] and tokens[lightest[0][1]] + lengths[index] > budget:
            full.append(heapq.heappop(lightest))
        if not lightest:
            return None
        weight, b = heapq.heappop(lightest)
        bins[b].append(index)
        tokens[b] += lengths[index]
        for entry in (*full, (weight + weights[index], b)):
            heapq.heappush(lightest, entry)
    return bins


def _trees(samples: Sequence[Sample]) -> list[Piece]:
    """Indices of the samples with a response, those with equal prompts together."""
    found: dict[tuple[int, ...], list[int]] = {}
    same: dict[int, list[int]] = {}  # a group's samples mostly hold one and the same list
    for index, sample in enumerate(samples):
        if sample.response_ids:
            known = same.get(id(sample.prompt_ids))
            if known is None:
                known = same[id(sample.prompt_ids)] = found.setdefault(tuple(sample.prompt_ids), [])
            known.append(index)
    return [tuple(tree) for tree in found.values()]


class _Planner:
    """Splits trees into pieces and lays pieces into micro-batches; lengths are (prompt, response) by sample."""

    def __init__(
        self, lengths: dict[int, tuple[int, int]], budget: int, num_ranks: int, multiple_of: int, cost: Cost
    ) -> None:
        self._lengths, self._budget, self._cost = lengths, budget, cost
        self._num_ranks, self._multiple_of = num_ranks, multiple_of
        self._measured: dict[Piece, tuple[int, float]] = {}

    def tokens(self, pieces: Sequence[Piece]) -> int:
        return sum(self._measure(piece)[0] for piece in pieces)

    def cost(self, pieces: Sequence[Piece]) -> float:
        return sum(self._measure(piece)[1] for piece in pieces)

    def _measure(self, piece: Piece) -> tuple[int, float]:
        """Tokens and cost, worked out once: `place` asks for those of every piece for each placing that it tries."""
        if piece not in self._measured:
            shape = self._shape(piece)
            self._measured[piece] = trunk_tokens(*shape), self._cost.of_tree(*shape)
        return self._measured[piece]

    def _shape(self, piece: Piece) -> tuple[int, list[int]]:
        return self._lengths[piece[0]][0], [self._lengths[index][1] for index in piece]

    def split(self, tree: Piece, least: int = 1) -> list[Piece]:
        """The tree in as few pieces as the budget allows, `least` or more, about equally long."""
        prompt, responses = self._shape(tree)
        rows = [length - 1 for length in responses]
        room = max(self._budget - prompt, *rows)
        bins = partition(rows, room)
        bins = spread(rows, rows, max(least, len(bins)), room) or bins
        return [tuple(sorted(tree[i] for i in members)) for members in bins if members]

    def place(self, pieces: list[Piece], may_split: bool) -> list[list[Piece]]:
        """Slots, a multiple of the ranks in number, the costliest first, each a micro-batch.

        Where the costliest slot makes ranks wait, its costliest tree is split in two, at most once for each rank; of
        the placings on the way, the one whose rounds take the least time is kept.
        """
        count = len(partition([self.tokens([piece]) for piece in pieces], self._budget))
        rounds = max(1, -(-count // self._num_ranks))
        count = (rounds + -rounds % self._multiple_of) * self._num_ranks
        best = slots = self._slots(pieces, count)
        assert slots is not None, "first fit fills no more bins than it counted"
        for _ in range(self._num_ranks if may_split and self._num_ranks > 1 else 0):
            splittable = [piece for piece in slots[0] if len(piece) > 1]
            if not splittable:
                break
            costliest = max(splittable, key=lambda piece: (self.cost([piece]), piece))
            pieces = [piece for piece in pieces if piece != costliest] + self.split(costliest, least=2)
            slots = self._slots(pieces, count)
            if slots is None:
                break
            if self._time(slots) < self._time(best):
                best = slots
        return best

    def _slots(self, pieces: Sequence[Piece], count: int) -> list[list[Piece]] | None:
        """The pieces in `count` slots of the budget, costliest first; None where they do not fit."""
        pieces = sorted(pieces)
        tokens = [self.tokens([piece]) for piece in pieces]
        packed = partition(tokens, self._budget)
        found = [spread([self.cost([piece]) for piece in pieces], tokens, count, self._budget)]
        if len(packed) <= count:
            found.append(packed + [[] for _ in range(count - len(packed))])
        candidates = [[[pieces[i] for i in sorted(members)] for members in bins] for bins in found if bins is not None]
        for slots in candidates:
            slots.sort(key=lambda slot: (-self.cost(slot), slot))
        return min(candidates, key=self._time, default=None)

    def _time(self, slots: Sequence[list[Piece]]) -> float:
        """Of rounds in which every rank waits for the slowest: slots are in order, so each round's is its first."""
        return sum(self.cost(slot) for slot in slots[:: self._num_ranks])

    def deal(self, slots: Sequence[list[Piece]]) -> list[list[list[Piece]]]:
        """Slots, costliest first, to ranks: one of each round to everyone, the costliest to who has the least yet."""
        ranks: list[list[list[Piece]]] = [[] for _ in range(self._num_ranks)]
        load = [0.0] * self._num_ranks
        for start in range(0, len(slots), self._num_ranks):
            by_load = sorted(range(self._num_ranks), key=lambda rank: (load[rank], rank))
            for rank, slot in zip(by_load, slots[start : start + self._num_ranks], strict=True):
                ranks[rank].append(slot)
                load[rank] += self.cost(slot)
        return ranks
