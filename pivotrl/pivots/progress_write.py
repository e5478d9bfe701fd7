"""What one engine appends to a selection's log."""

import os
import time
from collections.abc import Iterable
from pathlib import Path
from typing import IO, Any, Self

from pivotrl.trajectories.store import dumps


class EngineLog:
    """Appends finished turns; the file, and the line that begins the attempt, are made with the first of them."""

    def __init__(self, path: Path, attempt: dict[str, Any]):
        """Starts the attempt's clock.

        Args:
            path: this engine's file, without a torn line at its end.
            attempt: the line that begins the attempt.
        """
        self._path, self._attempt = path, attempt
        self._started = time.monotonic()
        self._file: IO[str] | None = None

    def append(self, rows: Iterable[dict[str, Any]]) -> None:
        """Add finished turns (`progress_line.line_of`); on disk when this returns. Raises OSError."""
        clock = round(time.monotonic() - self._started, 3)
        lines = [row | {"clock": clock} for row in rows]
        if self._file is None:
            self._file = open(self._path, "a", encoding="ascii", newline="\n")  # noqa: SIM115
            lines.insert(0, self._attempt)
        self._file.write("".join(dumps(line) + "\n" for line in lines))
        self._file.flush()
        os.fsync(self._file.fileno())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None
