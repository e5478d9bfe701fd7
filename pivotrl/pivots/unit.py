"""One unit of turns sampled by one engine, in as many rounds as its turns need.

A turn's result is a pure function of its unit: the unit's turns, seeds from the run's seed and each turn's id, a prefix
cache that starts empty, and in each round one engine call for all turns that are not settled. (The bits of a log-prob,
and so now and then a sample, depend on what else is in the engine's batch; that is why a unit that a kill tore is
sampled again whole.) It does not depend on how many engines there are, which of them took the unit, or where an earlier
run was killed.
"""

from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pivotrl.config import RunConfig
from pivotrl.pivots.candidates import Unit
from pivotrl.pivots.progress_line import line_of
from pivotrl.pivots.score import Scorer
from pivotrl.pivots.select import make_profile
from pivotrl.pivots.sequential import Rule
from pivotrl.pivots.shared import Crew
from pivotrl.pivots.usable import usable_prompt
from pivotrl.rollout.records import Request, Sample
from pivotrl.trajectories.faults import Place, RowFault
from pivotrl.trajectories.ids import stable_hash
from pivotrl.trajectories.records import Turn
from pivotrl.trajectories.template import ChatTemplate

if TYPE_CHECKING:
    from pivotrl.rollout.engine import Engine

Settled = Callable[[list[dict[str, Any]]], None]
"""Hears the lines of turns as they are done."""


@dataclass(slots=True)
class _Turn:
    """A turn while its samples come."""

    place: int
    turn: Turn
    prompt_ids: list[int]
    draws: int
    """Samples of the next round; 0: it is settled."""
    rewards: list[float] = field(default_factory=list)
    reasons: list[str] = field(default_factory=list)
    sampled_tokens: int = 0


class UnitRun:
    """Samples and judges one unit; collective over the ranks of its engine, whose first judges and settles."""

    def __init__(
        self,
        config: RunConfig,
        engine: "Engine",
        scorer: Scorer,
        template: ChatTemplate,
        rule: Rule,
        crew: Crew,
        settled: Settled,
    ):
        """
        Args:
            rule: how many more samples a turn gets.
            settled: on the engine's first rank, on some thread but one call at a time; may raise OSError.
        """
        self._config, self._engine, self._scorer, self._template = config, engine, scorer, template
        self._rule, self._crew, self._settled = rule, crew, settled
        self._heard: deque[tuple[_Turn, list[Sample]]] = deque()

    def run(self, unit: Unit) -> None:
        """Profile all turns of the unit. Raises ValueError, on every rank of the engine, where a verdict cannot be had
        or `settled` failed."""
        turns = self._open(unit)
        self._engine.reset_prefix_cache()
        while drawing := [item for item in turns if item.draws]:
            problem = self._round(drawing)
            draws, problem = self._crew.told(([item.draws for item in drawing], problem))
            if problem:
                raise ValueError(problem)
            for item, count in zip(drawing, draws, strict=True):
                item.draws = count

    def _open(self, unit: Unit) -> list[_Turn]:
        """The turns that can be sampled; the others are settled."""
        turns, rejected = [], []
        for place, turn in zip(unit.places, unit.turns, strict=True):
            try:
                turns.append(
                    _Turn(
                        place,
                        turn,
                        usable_prompt(self._config, turn, self._scorer, self._template),
                        self._rule.more([]),
                    )
                )
            except RowFault as fault:
                rejected.append(line_of(place, fault.at(Place.parse(turn.source), turn.id)))
        problem = ""
        if rejected and self._crew.leads:
            problem = _problem_of(lambda: self._settled(rejected))
        if problem := self._crew.told(problem):
            raise ValueError(problem)
        return turns

    def _round(self, drawing: list[_Turn]) -> str:
        """Sample `draws` more at each turn and judge them -> what went wrong on the engine's first rank.

        Turns are judged and settled on a thread while the engine samples others, but for those whose verifier may ask
        the engine itself.
        """
        later: list[tuple[_Turn, list[Sample]]] = []
        work: list[Future[None]] = []
        with ThreadPoolExecutor(1, "profiles") as thread:

            def finished(number: int, samples: list[Sample]) -> None:
                item = drawing[number]
                if not self._scorer.judges_apart(item.turn):
                    later.append((item, samples))
                    return
                self._heard.append((item, samples))
                work.append(thread.submit(self._judge_heard))

            requests = [self._request(item) for item in drawing]
            self._engine.generate(requests, finished if self._crew.leads else None)
            problem = _problem_of(lambda: [future.result() for future in work])
        self._heard.clear()  # where one failed, others may be left
        if not problem and later:
            problem = _problem_of(lambda: self._judge(later))
        return problem

    def _request(self, item: _Turn) -> Request:
        return Request(
            prompt_ids=item.prompt_ids,
            n=item.draws,
            seed=stable_hash("profile", self._config.seed, item.turn.id) % 2**31,
            temperature=self._config.pivots.temperature,
            top_p=self._config.pivots.top_p,
            max_tokens=self._config.rollout.max_new_tokens,
            first=len(item.rewards),
        )

    def _judge_heard(self) -> None:
        """Judge what has been heard by now, together: one write to disk for all of it."""
        heard = []
        while self._heard:
            heard.append(self._heard.popleft())
        if heard:
            self._judge(heard)

    def _judge(self, heard: list[tuple[_Turn, list[Sample]]]) -> None:
        verdicts = self._scorer.verdicts([item.turn for item, _ in heard], [samples for _, samples in heard])
        for (item, samples), row in zip(heard, verdicts, strict=True):
            item.rewards += [verdict.reward for verdict in row]
            item.reasons += [verdict.reason for verdict in row]
            item.sampled_tokens += sum(len(sample.token_ids) for sample in samples)
            item.draws = self._rule.more(item.rewards)
        if done := [self._line(item) for item, _ in heard if not item.draws]:
            self._settled(done)

    def _line(self, item: _Turn) -> dict[str, Any]:
        sampling = {
            "n": len(item.rewards),
            "temperature": self._config.pivots.temperature,
            "top_p": self._config.pivots.top_p,
            "max_tokens": self._config.rollout.max_new_tokens,
        }
        profile = make_profile(item.turn.id, item.rewards, item.reasons, self._config.model.path, sampling)
        return line_of(item.place, profile, len(item.prompt_ids), item.sampled_tokens)


def _problem_of(work: Callable[[], Any]) -> str:
    """Do what the other ranks of the engine wait for -> what a user can do about its failure, else empty."""
    try:
        work()
    except OSError as error:
        return f"{error.filename or 'the log'}: {error.strerror or error}; make room, or give another --out"
    except ValueError as error:
        return str(error)
    return ""
