"""Profiling: the samples of the frozen policy at each candidate turn, judged, in units that engines take when they are
free, with every finished turn on disk."""

import sys
import uuid
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from pivotrl.cluster.preemption import Stopped, never
from pivotrl.config import RunConfig
from pivotrl.pivots.candidates import Survey, Unit, candidates, units
from pivotrl.pivots.progress import ProgressLog
from pivotrl.pivots.score import Scorer
from pivotrl.pivots.sequential import rule_of
from pivotrl.pivots.shared import Counters, Crew, everyone
from pivotrl.pivots.unit import UnitRun
from pivotrl.telemetry.progress import Progress
from pivotrl.trajectories.template import ChatTemplate

if TYPE_CHECKING:
    from pivotrl.rollout.engine import Engine


def profile(
    config: RunConfig,
    found: Survey,
    engine: "Engine",
    scorer: Scorer,
    template: ChatTemplate,
    log: ProgressLog,
    done: bytes,
    attempt: int,
    asked: Callable[[], str] = never,
) -> None:
    """Profile every turn that is not `done` and append it to `log` (collective; the first rank of each engine writes).

    Args:
        done: for each candidate 1 where it is done, else 0.
        attempt: its number, the same on every rank and another one at every start.
        asked: why to stop, of this rank alone; "" to go on. Called after each unit.

    Raises:
        Stopped: on every rank: one was asked to. What was profiled is in the log.
        ValueError: on every rank: what one met.
    """
    counters = Counters(engine, everyone(engine, uuid.uuid4().hex)[0])
    crew = Crew(engine)
    before = sum(done)
    if engine.rank == 0 and before < found.count:
        print(_words(config), file=sys.stderr, flush=True)
    reason = problem = ""
    with (
        Progress(found.count, "profiling", "turn", rank=engine.rank, done=before) as progress,
        log.writer(engine.engine_index, attempt, engine.world_size) as writer,
    ):
        tell = _Teller(counters, progress, before)

        def settled(rows: list[dict[str, Any]]) -> None:
            fresh = [row for row in rows if not done[row["turn"]]]  # the others were done by a run that was killed
            if fresh:
                writer.append(fresh)
                tell(fresh)

        run = UnitRun(config, engine, scorer, template, rule_of(config.pivots), crew, settled)
        waiting = _unfinished(units(candidates(config, found), config.pivots.chunk), done)
        passed = 0
        while (number := crew.told(_claimed(counters) if crew.leads else None)) is not None:
            unit = _nth(waiting, number - passed)
            passed = number + 1
            if unit is None:
                break
            try:
                run.run(unit)
            except ValueError as error:
                problem = str(error)
            reason = asked()
            if reason or problem:
                counters.add("stop", 1)
        ends = everyone(engine, (problem, reason))
        tell([])
    problem, reason = (max(words) for words in zip(*ends, strict=True))
    if problem:
        raise ValueError(problem)
    total = before + counters.read("turns")
    if reason and total < found.count:
        raise Stopped(total, found.count, "turns", reason)
    assert total == found.count, f"{total} of {found.count} turns are in the log"


def _words(config: RunConfig) -> str:
    samples, profiling = config.pivots.samples, config.pivots.profiling
    times = f"{samples} times" if profiling == "fixed" else f"2 to {samples} times ({profiling})"
    return (
        f"each turn is sampled {times}; mixed: the share of turns where some samples earn more than others, which can "
        "be pivots"
    )


def _claimed(counters: Counters) -> int | None:
    """Number of the unit that the engine which asks is to take; None where all are to stop."""
    return None if counters.read("stop") else counters.add("units", 1) - 1


def _unfinished(all_units: Iterator[Unit], done: bytes) -> Iterator[Unit]:
    """Units with a turn that is not done. It is sampled whole, so that its results are what they would have been."""
    return (unit for unit in all_units if not all(done[place] for place in unit.places))


def _nth(waiting: Iterator[Unit], skip: int) -> Unit | None:
    """The next unit after leaving out `skip`; None where there is none."""
    for _ in range(skip):
        next(waiting, None)
    return next(waiting, None)


class _Teller:
    """Adds what is done to the counters of all ranks, and shows them on rank 0."""

    def __init__(self, counters: Counters, progress: Progress, before: int):
        self._counters, self._progress, self._before = counters, progress, before

    def __call__(self, rows: list[dict[str, Any]]) -> None:
        profiles = [row["profile"] for row in rows if "profile" in row]
        turns = self._counters.add("turns", len(rows))
        profiled = self._counters.add("profiled", len(profiles))
        mixed = self._counters.add("mixed", sum(profile["variance"] > 0 for profile in profiles))
        tokens = self._counters.add("tokens", sum(row["sampled_tokens"] for row in rows))
        count = self._before + turns - self._progress.done
        share = f"{mixed / profiled:.0%}" if profiled else "-"
        self._progress.advance(count, mixed=share, tokens=f"{tokens:,}")
