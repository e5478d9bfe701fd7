"""One attempt at a training run: asked to stop, watched for a hang, and leaving word of how far it came."""

from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Self

from pivotrl.cluster import state
from pivotrl.cluster.preemption import Preemption, Stopped
from pivotrl.cluster.watchdog import Watchdog

if TYPE_CHECKING:
    from pivotrl.policy.parallel import World


class Attempt:
    """From a checkpoint to `training.steps`, or to the step after which the run was asked to stop."""

    def __init__(self, run: Path, world: "World", steps: int) -> None:
        """
        Args:
            run: the run's folder.
            world: the ranks that must agree.
            steps: `training.steps`.

        Raises:
            ValueError: one of the environment's variables is not a number.
        """
        self._run, self._rank, self._steps = run, world.rank, steps
        self._done, self._reason = 0, ""
        self._preemption, self._watchdog = Preemption(world.object_group), Watchdog()
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        self._stack.enter_context(self._preemption)
        self._stack.enter_context(self._watchdog)
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def starts_at(self, step: int) -> None:
        """Say on rank 0 how many steps the checkpoint has."""
        self._done = step
        if self._rank == 0:
            state.write(self._run, step, self._steps)

    def ends_after(self, step: int) -> bool:
        """To be called once a step, with the number of finished ones: whether to save and stop there (collective)."""
        self._watchdog.beat()
        self._done, self._reason = step, self._preemption.asked()
        return bool(self._reason)

    def end(self) -> str:
        """Once everything is saved: leave word on rank 0. Returns the line for the terminal; "" of a complete run."""
        stopped = self._done < self._steps
        if self._rank == 0:
            state.write(self._run, self._done, self._steps, self._reason if stopped else "")
        return str(Stopped(self._done, self._steps, "steps", self._reason)) if stopped else ""
