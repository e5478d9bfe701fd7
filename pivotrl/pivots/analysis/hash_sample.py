"""An even sample of a stream whose length nobody knows: the same items in every pass and on every machine."""

import heapq
from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

from pivotrl.trajectories.ids import stable_hash

Item = TypeVar("Item")


class HashSample(Generic[Item]):
    """The `size` items whose names have the smallest hashes, all of them where there are no more."""

    def __init__(self, size: int, salt: str) -> None:
        self._size, self._salt, self.offered = size, salt, 0
        self._heap: list[tuple[int, int, Item]] = []

    def offer(self, name: str, make: Callable[[], Item]) -> None:
        """Offer one item; it is made only where it is kept, which of n items about size x log(n / size) are."""
        self.offered += 1
        rank = -stable_hash(self._salt, name)
        if len(self._heap) < self._size:
            heapq.heappush(self._heap, (rank, self.offered, make()))
        elif rank > self._heap[0][0]:
            heapq.heapreplace(self._heap, (rank, self.offered, make()))

    def __iter__(self) -> Iterator[Item]:
        """The kept items, in the order in which they came."""
        return (item for _, _, item in sorted(self._heap, key=lambda entry: entry[1]))

    def __len__(self) -> int:
        return len(self._heap)
