"""Being asked to stop: by a signal, a file, or the end of the job. A run then finishes its step, saves and exits 0.

    with Preemption(group) as preemption:
        for step in ...:
            ...
            if reason := preemption.asked():
                break

Three ways to ask, because each reaches what the others may not:

- SIGUSR1 or SIGTERM to the rank itself. Between two steps Python sees it; torchrun passes SIGTERM on, but not SIGUSR1.
- The file that `PIVOTRL_STOP_FILE` names. slurm/job.sh makes it when Slurm signals the batch script, which is the only
  process that `--signal=B:USR1@N` reaches; it crosses nodes and containers.
- `PIVOTRL_DEADLINE`, when the job ends (seconds since 1970): as soon as another step as slow as the slowest one so far
  would end less than `PIVOTRL_MARGIN_SECONDS` (60) before it.
"""

import os
import signal
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import FrameType
from typing import Any, Self

_SIGNALS = (signal.SIGUSR1, signal.SIGTERM)
_REASONS = ("", "a signal", "a stop file", "the end of the job")


class Stopped(Exception):
    """Long work ended early because it was asked to. What was done is kept: started again, it goes on from there."""

    def __init__(self, done: int, total: int, unit: str, reason: str) -> None:
        super().__init__(
            f"stopped by {reason} after {done} of {total} {unit}, which are saved; start it again to go on"
        )
        self.done, self.total, self.reason = done, total, reason


def never() -> str:
    """For `asked` where nobody asks."""
    return ""


class Preemption:
    """Whether this run has been asked to stop. Entered, it listens for signals."""

    def __init__(
        self,
        group: Any = None,
        environment: Mapping[str, str] = os.environ,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """
        Args:
            group: the ranks that must agree, a gloo group such as `World.object_group`; None where there is one rank.
            environment: where the three variables are read.
            clock: seconds since 1970.

        Raises:
            ValueError: a variable is not a number.
        """
        self._group, self._clock = group, clock
        file = environment.get("PIVOTRL_STOP_FILE")
        self._file = Path(file) if file else None
        self._deadline = _number(environment, "PIVOTRL_DEADLINE", float("inf"))
        self._margin = _number(environment, "PIVOTRL_MARGIN_SECONDS", 60.0)
        self._signalled = False
        self._slowest = 0.0
        self._before = clock()
        self._handlers: dict[int, Any] = {}

    def __enter__(self) -> Self:
        for number in _SIGNALS:
            self._handlers[number] = signal.signal(number, self._on_signal)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._handlers.items():
            signal.signal(number, handler)

    def asked(self) -> str:
        """Why the run is to stop now, the same on every rank; "" where it is to go on (collective: one all-reduce of a
        number). To be called once a step."""
        import torch
        import torch.distributed as dist

        mine = _REASONS.index(self.asked_here())
        if self._group is None:
            return _REASONS[mine]
        highest = torch.tensor(mine)
        dist.all_reduce(highest, op=dist.ReduceOp.MAX, group=self._group)
        return _REASONS[int(highest.item())]

    def asked_here(self) -> str:
        """`asked` for this rank alone, where the ranks agree in another way (no collective)."""
        now = self._clock()
        self._slowest = max(self._slowest, now - self._before)
        self._before = now
        if self._signalled:
            return "a signal"
        if self._file is not None and self._file.exists():
            return "a stop file"
        if now + self._slowest + self._margin > self._deadline:
            return "the end of the job"
        return ""

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        self._signalled = True


def _number(environment: Mapping[str, str], name: str, default: float) -> float:
    text = environment.get(name, "")
    try:
        return float(text) if text else default
    except ValueError:
        raise ValueError(f"{name} is {text!r}: write a number of seconds, or leave it unset") from None
