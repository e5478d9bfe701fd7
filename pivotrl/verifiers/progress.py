"""How far the judging of a file is, on standard error: for whoever waits, and for whoever wonders whether to."""

import sys
import threading
import time
from typing import Self, TextIO

QUIET_SECONDS = 2.0
"""A run that is over sooner says nothing."""
TERMINAL_SECONDS, FILE_SECONDS = 0.5, 10.0
"""Seconds between two lines: on a terminal, where one line is written over, and anywhere else."""


class Progress:
    """A context manager; `add` is called for every verdict. A thread of its own speaks, so that a verdict that does not
    come is heard of too."""

    def __init__(self, unit: str, stream: TextIO | None = None, every: float | None = None):
        """`unit` is what is counted, as in `rows`; `every` is the time between two lines, by default the stream's."""
        self._unit, self._stream = unit, stream or sys.stderr
        self._terminal = self._stream.isatty()
        self._every = every or (TERMINAL_SECONDS if self._terminal else FILE_SECONDS)
        self._count, self._width = 0, 0
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._speak, daemon=True)

    def add(self, number: int) -> None:
        self._count += number

    def __enter__(self) -> Self:
        self._started = time.monotonic()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join(timeout=1)
        if self._width:
            self._write("")

    def _speak(self) -> None:
        if self._ended.wait(max(self._every, QUIET_SECONDS if self._terminal else 0)):
            return
        while True:
            seconds = time.monotonic() - self._started
            self._write(f"judged {self._count:,} {self._unit} in {seconds:.0f} s")
            if self._ended.wait(self._every):
                return

    def _write(self, line: str) -> None:
        try:
            if self._terminal:  # over the line before
                self._stream.write(f"\r{line:{self._width}}\r{line}")
                self._width = len(line)
            else:
                self._stream.write(f"{line}\n")
            self._stream.flush()
        except (OSError, ValueError):  # nobody listens any more
            self._ended.set()
