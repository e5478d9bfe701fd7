"""Progress of long work: a bar with an ETA on a terminal, a line now and then in a log file, silence on other ranks."""

import sys
import time
from collections.abc import Callable
from typing import Self, TextIO

from tqdm import tqdm


class Progress:
    """Counts `total` items of work down.

        with Progress(len(turns), "profiling", "turn", rank=world.rank, done=already) as progress:
            ...
            progress.advance(len(chunk), mixed="71 %")

    On a terminal it is a tqdm bar. Elsewhere (a file, Slurm's log) it prints a line at most every `line_seconds`, and
    always the last one.
    """

    def __init__(
        self,
        total: int,
        label: str,
        unit: str = "item",
        *,
        rank: int = 0,
        done: int = 0,
        line_seconds: float = 15.0,
        stream: TextIO | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """
        Args:
            done: items finished by an earlier run; they count as done but not for the speed.
            stream: where to write (standard error).
            clock: seconds, for tests.
        """
        self.total, self.label, self.unit, self.done = total, label, unit, done
        self._stream = sys.stderr if stream is None else stream
        self._silent = rank != 0
        self._clock, self._line_seconds = clock, line_seconds
        self._started = self._last_line = clock()
        self._at_start = done
        self._facts: dict[str, object] = {}
        self._unsaid = True
        self._bar = None
        if not self._silent and self._stream.isatty():
            self._bar = tqdm(
                total=total, desc=label, unit=unit, initial=done, file=self._stream, dynamic_ncols=True, leave=True
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def advance(self, count: int = 1, **facts: object) -> None:
        """Count `count` more items; `facts` are shown behind the numbers until they are replaced."""
        self.done += count
        self._facts |= facts
        self._unsaid = True
        if self._silent:
            return
        if self._bar is not None:
            self._bar.set_postfix({key: str(value) for key, value in self._facts.items()}, refresh=False)
            self._bar.update(count)
        elif self._clock() - self._last_line >= self._line_seconds:
            self._say()

    def close(self) -> None:
        if self._bar is not None:
            self._bar.close()
        elif not self._silent and self._unsaid:
            self._say()

    def _say(self) -> None:
        now = self._clock()
        self._last_line, self._unsaid = now, False
        elapsed, fresh = now - self._started, self.done - self._at_start
        share = f" ({100 * self.done / self.total:.0f} %)" if self.total else ""
        words = [f"{self.label} {self.done}/{self.total} {self.unit}s{share}"]
        if fresh and elapsed > 0:
            words.append(f"{fresh / elapsed:.3g}/s")
            left = (self.total - self.done) * elapsed / fresh
            words.append(f"about {format_seconds(left)} left" if left else f"in {format_seconds(elapsed)}")
        words += [f"{key} {value}" for key, value in self._facts.items()]
        print("  ".join(words), file=self._stream, flush=True)


def format_seconds(seconds: float) -> str:
    """4.2 s, 1:05 min or 2:03 h."""
    if seconds < 60:
        return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"
    minutes = round(seconds / 60) if seconds >= 3600 else int(seconds // 60)
    if seconds < 3600:
        return f"{minutes}:{int(seconds % 60):02d} min"
    return f"{minutes // 60}:{minutes % 60:02d} h"
