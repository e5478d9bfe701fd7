"""Verdicts from worker processes, under a limit on the time of each: one that is stuck costs its own row, no other."""

import selectors
import signal
import threading
import time
import weakref
from collections import Counter, deque
from collections.abc import Callable, Sequence
from typing import Any, Self

from pivotrl.verifiers.attempt import Attempt
from pivotrl.verifiers.base import Verdict, VerifierConfig
from pivotrl.verifiers.child import Child, describe_end
from pivotrl.verifiers.clock import TICK
from pivotrl.verifiers.registry import build_verifier
from pivotrl.verifiers.wire import BadParams, encode, judge_one, shared_half
from pivotrl.verifiers.worker import REPLACE_ME

Job = tuple[Attempt, dict[str, Any] | None]
"""What to judge, and the row's overrides of the verifier's parameters."""
AHEAD = 0.01
"""Seconds of work that a worker is given at a time: enough that it never waits for more, little enough that the last
worker of a batch is not much later than the others."""
MOST_AHEAD = 128
"""Jobs that a worker is given at a time, at most."""
MOST_BYTES = 1_000_000
"""Bytes that wait for a worker, from which on it is given no further job."""
PAUSE = 0.0005
"""Seconds between two readings while workers are busy: waking for each verdict would cost more than a quick verdict."""
FAULTS = ("time_limit", "crashed", "verifier_error")
"""Reasons that are the pool's own, and mean that the verifier gave no verdict."""


class VerdictPool:
    """Judges with one verifier, in `workers` processes that start with the first jobs and stay. Threads take turns.

    Reasons beside the verifier's own, each with reward 0: `time_limit`, a verdict took more than `seconds` (of its
    process's running and sleeping, see `clock.py`) and its worker was killed; `crashed`, the worker died of it;
    `verifier_error`, the verifier raised or returned what is no verdict. With `workers=0`, and for a verifier whose
    `in_pool` is false, all is judged in this process, without a limit. Verdicts are the same either way.
    """

    def __init__(
        self, config: VerifierConfig, workers: int, seconds: float, judged: Callable[[int], object] | None = None
    ):
        """`judged` hears of verdicts as they come: of how many more there are.

        Raises ValueError where `config` names no verifier, or parameters that it does not know or that are no JSON
        values.
        """
        self.verifier = build_verifier(config)
        self._judged = judged or (lambda number: None)
        self.faults: Counter[str] = Counter()
        """How many verdicts so far were one of FAULTS, by reason."""
        self._config, self._seconds = config, seconds
        self._workers = workers if self.verifier.in_pool else 0
        if self._workers:
            _check_crosses(config)
        self._children: list[Child] = []
        self._selector = selectors.DefaultSelector()
        self._pace = 0.001
        self._turn = threading.Lock()
        self._end_all = weakref.finalize(self, _end_all, self._children, self._selector)

    def judge(self, jobs: Sequence[Job]) -> list[Verdict]:
        """A verdict for each job, in order.

        Raises ValueError where a row's parameters are unusable, and RuntimeError where a worker cannot start.
        """
        with self._turn:  # answers carry no name of who asked
            if not self.verifier.in_pool:
                found = self.verifier.verify_all(jobs)
                self._judged(len(found))
            elif not self._workers:
                found = [self._judge_here(*job) for job in jobs]
            else:
                found = self._judge_in_workers(jobs)
            self.faults.update(v.reason for v in found if v.reason in FAULTS)
        return found

    def _judge_here(self, attempt: Attempt, params: dict[str, Any] | None) -> Verdict:
        verdict = judge_one(self.verifier, attempt, params)
        self._judged(1)
        return verdict

    def pids(self) -> list[int]:
        """The processes of the workers that there are now."""
        return [child.pid for child in self._children]

    def close(self) -> None:
        """End the workers, which happens by itself when the pool is gone or Python ends, and close the verifier.

        Waits for a thread that is judging.
        """
        with self._turn:
            self._end_all()
        if hasattr(self.verifier, "close"):
            self.verifier.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _judge_in_workers(self, jobs: Sequence[Job]) -> list[Verdict]:
        if not self._end_all.alive:
            raise ValueError("the pool is closed; make another")
        for child in [child for child in self._children if child.ended]:
            self._dismiss(child, kill=False)  # while it was idle
        batch = _Batch(jobs, self._judged)
        try:
            last_look = time.monotonic()
            while batch.missing:
                self._hire(batch)
                self._feed(batch)
                for key, events in self._selector.select(TICK):
                    if key.data not in self._children:
                        continue  # an event before it told of its end
                    if events & selectors.EVENT_WRITE:
                        key.data.write()
                        self._listen(key.data)
                    if events & selectors.EVENT_READ:
                        self._read(key.data, batch)
                now = time.monotonic()
                if now - last_look >= TICK:
                    last_look = now
                    self._look(batch)
                elif batch.missing:
                    time.sleep(PAUSE)
        except BaseException:  # answers to this batch are on their way: no later one may read them
            for child in list(self._children):
                self._dismiss(child, kill=True)
            raise
        return batch.found

    def _hire(self, batch: "_Batch") -> None:
        while len(self._children) < min(self._workers, batch.missing):
            child = Child(self._config, self._seconds)
            self._children.append(child)
            self._selector.register(child.stdout, selectors.EVENT_READ, child)
            child.write()
            self._listen(child)

    def _feed(self, batch: "_Batch") -> None:
        ahead = min(MOST_AHEAD, max(2, int(AHEAD / self._pace)))
        for child in self._children:
            if not child.ready or 2 * len(child.pending) > ahead:
                continue
            share = -(-len(batch.waiting) // len(self._children))
            for _ in range(min(ahead - len(child.pending), share)):
                if child.backlog > MOST_BYTES:
                    break
                self._ask(child, batch)
            child.write()
            self._listen(child)

    def _ask(self, child: Child, batch: "_Batch") -> None:
        number = batch.waiting.popleft()
        attempt, params = batch.jobs[number]
        try:
            child.ask(number, shared_half(attempt, params), [attempt.items, attempt.text])
        except (ValueError, TypeError, RecursionError):  # not JSON, so not from a parser; see wire.py
            batch.put(number, judge_one(self.verifier, attempt, params))

    def _read(self, child: Child, batch: "_Batch") -> None:
        answers, alive = child.read()
        for answer in answers:
            if answer[0] == "ready":
                child.ready = True
            elif answer[0] == "refused":
                raise RuntimeError(f"verifier {self._config.name}: a worker could not build it: {answer[1]}")
            elif answer[0] == "params":
                raise BadParams(answer[1])
            elif answer[0] == "back":
                number = child.answer()
                batch.put(number, judge_one(self.verifier, *batch.jobs[number]))
            else:
                batch.put(child.answer(), Verdict(*answer))
        if answers:
            now = time.monotonic()
            self._pace += (min(now - child.since, AHEAD) / len(answers) - self._pace) / 8
            child.since = now
        if not alive:
            self._replace(child, batch)

    def _look(self, batch: "_Batch") -> None:
        for child in list(self._children):
            if child.overdue():
                self._read(child, batch)  # it may have answered since
                if child in self._children and child.overdue():
                    self._replace(child, batch, self._too_late())

    def _too_late(self) -> Verdict:
        return Verdict(0.0, "time_limit", f"no verdict in {self._seconds:g} s")

    def _replace(self, child: Child, batch: "_Batch", verdict: Verdict | None = None) -> None:
        """End a child that is stuck (`verdict` is its present job's) or gone; what it had left waits for another."""
        ready, left, answered = child.ready, list(child.pending), child.answered
        code = self._dismiss(child, kill=verdict is not None)
        if not ready:
            ended = "it did not start in time" if verdict else describe_end(code)
            raise RuntimeError(f"verifier {self._config.name}: a worker could not start: {ended}")
        if left and not (code == REPLACE_ME and answered):
            if verdict is None and code != -signal.SIGALRM:  # its own alarm, should it have come first
                verdict = Verdict(0.0, "crashed", describe_end(code))
            batch.put(left.pop(0), verdict or self._too_late())
        batch.waiting.extendleft(reversed(left))

    def _dismiss(self, child: Child, kill: bool) -> int:
        self._children.remove(child)
        self._selector.unregister(child.stdout)
        if child.stdin in self._selector.get_map():
            self._selector.unregister(child.stdin)
        return child.end(kill)

    def _listen(self, child: Child) -> None:
        """Hear of room in a child's pipe exactly while something waits to be written."""
        listening = child.stdin in self._selector.get_map()
        if child.writing and not listening:
            self._selector.register(child.stdin, selectors.EVENT_WRITE, child)
        elif listening and not child.writing:
            self._selector.unregister(child.stdin)


class _Batch:
    """The jobs of one call of `judge`, by number, and what was found."""

    def __init__(self, jobs: Sequence[Job], judged: Callable[[int], object]):
        self.jobs, self._judged = jobs, judged
        self.found: list[Any] = [None] * len(jobs)
        self.missing = len(jobs)
        self.waiting = deque(range(len(jobs)))

    def put(self, number: int, verdict: Verdict) -> None:
        assert self.found[number] is None
        self.found[number] = verdict
        self.missing -= 1
        self._judged(1)


def _end_all(children: list[Child], selector: selectors.BaseSelector) -> None:
    """End all at once, so that their ends do not add up."""
    for child in children:
        child.hang_up()
    for child in children:
        child.end()
    children.clear()
    selector.close()


def _check_crosses(config: VerifierConfig) -> None:
    try:
        encode(config.params)
    except (TypeError, ValueError, RecursionError) as error:
        raise ValueError(
            f"verifier.params: {error}; write JSON values (a date in quotes), or set verifier.workers to 0"
        ) from None
