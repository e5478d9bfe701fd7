"""Which pivots each training step sees: a pure function of the step, so that a resumed run needs no state."""

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Self

from pivotrl.pivots.store import PivotFile
from pivotrl.trajectories.ids import stable_hash
from pivotrl.trajectories.records import Pivot


class PivotSampler:
    """Epochs of whole batches: each epoch shuffles all pivots anew and leaves out the few that fill no batch.

    So no batch holds a pivot twice, and a pivot is left out of an epoch with chance (N mod B) / N. Of `rounds` above 1,
    each step owns that many batches in a row; those that it does not draw are left out as well, whatever is in them.
    """

    def __init__(self, pivots: Sequence[Pivot], batch_size: int, seed: int, rounds: int = 1):
        """`rounds` is how often a step may draw. Raises ValueError where there are fewer pivots than one batch
        takes."""
        if len(pivots) < batch_size:
            raise ValueError(
                f"training.pivots_per_step is {batch_size}, but there are {len(pivots)} pivots; lower it, "
                "or select more pivots (more trajectories, a higher pivots.max_mean, more pivots.samples)"
            )
        self._pivots, self._batch_size, self._seed, self.rounds = pivots, batch_size, seed, rounds
        self._epoch, self._order = -1, list[int]()

    @classmethod
    def from_folder(cls, folder: str | Path, batch_size: int, seed: int) -> Self:
        """Sample from the `pivots.jsonl` of a selection's folder. Raises ValueError where there is none."""
        return cls(PivotFile(Path(folder) / "pivots.jsonl"), batch_size, seed)

    def check_template(self, template_hash: str) -> None:
        """Raise ValueError where the pivots' prompts were made by another tokenizer or chat template than the run's."""
        found = self._pivots[0].template_hash
        if found != template_hash:
            raise ValueError(
                f"the pivots were tokenised by the tokenizer and chat template {found}, but model.path and "
                f"model.chat_template give {template_hash}; set them as they were, or select the pivots anew"
            )

    @property
    def batches_per_epoch(self) -> int:
        return len(self._pivots) // self._batch_size

    def batch(self, step: int, draw: int = 0) -> list[Pivot]:
        """The `batch_size` distinct pivots of a step's draw (both 0-based). Two draws of a step may share a pivot where
        an epoch ends between them."""
        assert draw < self.rounds
        epoch, number = divmod(step * self.rounds + draw, self.batches_per_epoch)
        if epoch != self._epoch:  # only a cache: the order depends on (seed, epoch) alone
            self._epoch, self._order = epoch, list(range(len(self._pivots)))
            random.Random(stable_hash("epoch", self._seed, epoch)).shuffle(self._order)
        first = number * self._batch_size
        return [self._pivots[index] for index in self._order[first : first + self._batch_size]]
