"""Which items (trajectories, tasks) a step sees: a pure function of the step, so that a resumed run needs no state."""

import random

from pivotrl.trajectories.ids import stable_hash


class Batches:
    """Epochs of whole batches, as `pivots.sampler.PivotSampler` makes them: each shuffles all items anew and leaves out
    the few that fill no batch."""

    def __init__(self, count: int, size: int, seed: int) -> None:
        """
        Args:
            count: of items, at least `size`.
            size: of a batch.
        """
        assert 1 <= size <= count
        self._count, self._size, self._seed = count, size, seed
        self._epoch, self._order = -1, list[int]()

    @property
    def per_epoch(self) -> int:
        """Batches of an epoch."""
        return self._count // self._size

    def __call__(self, step: int) -> list[int]:
        """The distinct numbers of a step's items (0-based, both)."""
        epoch, number = divmod(step, self.per_epoch)
        if epoch != self._epoch:  # only a cache
            self._epoch, self._order = epoch, list(range(self._count))
            random.Random(stable_hash("batches", self._seed, epoch)).shuffle(self._order)
        return self._order[number * self._size : (number + 1) * self._size]
