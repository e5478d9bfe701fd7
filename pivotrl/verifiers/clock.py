"""How long another process has been at one thing, fair to it on a machine that has no time for it."""

import os
import time
from typing import Any

TICK = 0.05
"""Seconds between two looks at a process."""
WALL = 10
"""A limit counts the seconds that a process ran or slept; on a machine that lets it do neither, wall time ends it after
this many times the limit."""
_PER_SECOND = os.sysconf("SC_CLK_TCK")


class Clock:
    """Samples a process at ticks.

    A verdict must not be lost because other processes had the cores, so the process's own CPU time counts; and where it
    sleeps, the wall's, though never more than two ticks of it at once: whoever looks may have been kept waiting too,
    and have missed what the process did meanwhile.
    """

    def __init__(self) -> None:
        self._at: Any = None

    def reset(self) -> None:
        """The process is at nothing."""
        self._at = None

    def spent(self, at: Any, pid: int) -> tuple[float, float]:
        """(seconds that count, seconds of wall time) since `at`, what the process is at, was first seen; within a
        tick."""
        now, (asleep, cpu) = time.monotonic(), process_state(pid)
        if at != self._at:
            self._at, self._since, self._counted = at, now, 0.0
        else:
            slept = min(now - self._last, 2 * TICK) if asleep else 0.0
            self._counted += max(cpu - self._cpu, slept)
        self._last, self._cpu = now, cpu
        return self._counted, now - self._since


def process_state(pid: int) -> tuple[bool, float]:
    """Whether a process sleeps, and its CPU seconds so far; where the system does not tell (not Linux), it sleeps."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
    except OSError:
        return True, 0.0
    return fields[0] in (b"S", b"D"), (int(fields[11]) + int(fields[12])) / _PER_SECOND
