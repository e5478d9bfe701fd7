"""Verdicts of a step's groups: most of them while the engine still samples others."""

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType
from typing import TYPE_CHECKING, Self

from pivotrl.policy.agree import together
from pivotrl.rollout.records import Sample
from pivotrl.trajectories.records import Turn
from pivotrl.verifiers.base import Verdict

if TYPE_CHECKING:
    from pivotrl.session import Session


class Judging:
    """Judges each group of a step once, on one rank.

    A group that this rank's engine has finished is judged on a thread, by the verifiers' worker processes. Those that
    must wait (of a verifier that may ask the engine, or from the rollout bank) are judged in `verdicts`.
    """

    def __init__(self, session: "Session", turns: Sequence[Turn]) -> None:
        self._scorer, self._world, self._turns = session.scorer, session.world, turns
        self._tensor = session.config.rollout.tensor
        # Asked before the thread works: the pools that it makes are not to be made by two at once.
        self._apart = [session.scorer.judges_apart(turn) for turn in turns]
        self._thread = ThreadPoolExecutor(1, "verdicts")
        self._ahead: dict[int, Future[list[list[Verdict]]]] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """What is being judged goes on, and `verdicts` waits for it; after an error, nothing does."""
        self._thread.shutdown(wait=kind is not None, cancel_futures=kind is not None)

    def hear(self, index: int, samples: list[Sample]) -> None:
        """This rank's engine has finished the group of turn `index`. The engine's ranks share its groups."""
        if self._apart[index] and index % self._tensor == self._world.rank % self._tensor:
            self._ahead[index] = self._thread.submit(self._scorer.verdicts, [self._turns[index]], [samples])

    def verdicts(self, groups: Sequence[list[Sample]]) -> list[list[Verdict]]:
        """The verdicts of all groups, in order, on every rank (collective)."""
        found = self._everyones(lambda: {index: done.result()[0] for index, done in self._ahead.items()})
        left = [index for index in range(len(groups)) if index not in found]
        if left:
            mine = left[self._world.rank :: self._world.world_size]
            turns, samples = [self._turns[index] for index in mine], [groups[index] for index in mine]
            found |= self._everyones(lambda: dict(zip(mine, self._scorer.verdicts(turns, samples), strict=True)))
        return [found[index] for index in range(len(groups))]

    def _everyones(self, work: Callable[[], dict[int, list[Verdict]]]) -> dict[int, list[Verdict]]:
        parts = together(self._world.object_group, work) if self._world.world_size > 1 else [work()]
        return {index: verdicts for part in parts for index, verdicts in part.items()}
