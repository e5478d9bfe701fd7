"""What surrounds the steps of a training run: it is resumed, watched, measured, judged and saved.

with RunLoop(session, steps, batches) as loop:
    for step, timer in loop.steps():
        ...
        loop.finish(step, timer, known, timed)
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from pivotrl import handover
from pivotrl.cluster.attempt import Attempt
from pivotrl.config import save_config
from pivotrl.policy.checkpoint import Checkpoints
from pivotrl.telemetry.closing import closing_words
from pivotrl.telemetry.health import Health
from pivotrl.telemetry.metrics import MetricsWriter, PhaseTimer
from pivotrl.telemetry.observer import Observer

if TYPE_CHECKING:
    from pivotrl.pivots.fresh import FreshSampler
    from pivotrl.session import Session


class RunLoop:
    """One start of a run, from its newest checkpoint to its last step. Every method is collective."""

    def __init__(
        self,
        session: "Session",
        steps: int,
        next_batch: Callable[[int], Sequence[Any]],
        carried: "FreshSampler | None" = None,
    ) -> None:
        """
        Args:
            steps: of the whole run.
            next_batch: what a step trains on, a pure function; as in `Checkpoints`.
            carried: what else a checkpoint holds; as in `Checkpoints`.
        """
        self._session, self._steps = session, steps
        self._run, self._first = Path(session.config.output), session.world.rank == 0
        self._attempt = Attempt(self._run, session.world, steps)
        whole = partial(handover.whole_trainer, session.policy, session.engine)
        self._checkpoints = Checkpoints(session.policy, self._run / "checkpoints", next_batch, carried, whole)
        self._stack = ExitStack()
        self._stopping = False
        self.start = 0
        """Steps that the checkpoint has. Where it is not 0, the engine's weights are older than the policy's."""

    def __enter__(self) -> Self:
        """Resume. Raises ValueError as `Checkpoints` does."""
        config, world = self._session.config, self._session.world
        with ExitStack() as stack:
            stack.enter_context(self._attempt)
            stack.enter_context(self._checkpoints)
            self.start = self._checkpoints.resume()
            self._attempt.starts_at(self.start)
            if self._first:
                save_config(config, self._run / "config.yaml")
            self._health = Health(self._run, config, world, self.start)
            self._writer = stack.enter_context(
                MetricsWriter(self._run, config.telemetry, world.rank, self.start, self._steps)
            )
            self._observer = stack.enter_context(Observer(self._run, config.telemetry, world))
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *error: Any) -> None:
        self._stack.__exit__(*error)
        if error[0] is None:
            stopped = self._attempt.end()
            if self._first:
                print(stopped or closing_words(self._run, self.start, self._steps), flush=True)

    def steps(self) -> Iterator[tuple[int, PhaseTimer]]:
        """Each step that is left, with its clock; ends early where the run was asked to stop."""
        for step in range(self.start, self._steps):
            yield step, self._observer.begin(step)
            if self._stopping:
                if step + 1 < self._steps:
                    self._observer.stops()
                return

    def finish(
        self,
        step: int,
        timer: PhaseTimer,
        known: Mapping[str, float],
        timed: Callable[[Mapping[str, float]], Mapping[str, float]],
    ) -> None:
        """After a step's update: save where it is due or where the run was asked to stop, write the step's metrics, and
        let the gates judge them.

        Args:
            known: metrics of the step.
            timed: wall seconds of the step's phases so far, `total` among them -> more metrics. Their mean `reward` is
                what checkpoint.keep_best chooses by.

        Raises:
            HealthStop: a gate stopped the run, which is saved.
            ValueError: a checkpoint or the metrics cannot be written.
        """
        with timer.phase("save"):
            seconds = timer.with_total()
            known = {"ranks": self._session.world.world_size, **known}
            so_far = {**known, **timed(seconds)}
            self._writer.prepare(step, so_far, seconds)
            self._stopping = self._attempt.ends_after(step + 1)
            last = self._stopping or step + 1 == self._steps
            self._checkpoints.save_if_due(step + 1, so_far.get("reward"), last)
        seconds = timer.with_total()
        row = {**known, **timed(seconds), **self._observer.end(timer)}
        self._writer.write(step, row, seconds)
        if stop := self._health.check(step, row):
            self._checkpoints.save_now(step + 1)
            raise stop
