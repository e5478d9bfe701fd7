"""What tools/score.py writes: verdicts, and the rows that cannot be judged."""

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from pivotrl.trajectories.store import dumps, write_jsonl
from pivotrl.verifiers.judges import Judges
from pivotrl.verifiers.rows import BadRow, ScoreRow
from pivotrl.verifiers.score_table import Rejects

Rows = Iterable[ScoreRow | BadRow]


def rejected_path(out: str | Path) -> Path:
    """OUT.rejected.jsonl beside OUT.jsonl."""
    out = Path(out)
    return out.with_name(out.name.removesuffix(".jsonl") + ".rejected.jsonl")


class Outputs:
    """The two files of a run, each written whole or not at all; a run that fails leaves what was there.

    Without an `out` (an audit may do without) nothing is written.
    """

    def __init__(self, out: str | None, inputs: list[str]):
        """Raises ValueError where `out` cannot be written, or is a file that is read."""
        self.out = Path(out) if out else None
        self.rejected = rejected_path(out) if out else None
        self.rejects = Rejects()
        self._bad: Any = None
        if self.out:
            for path in (self.out, self.rejected):
                _check_writable(path, inputs)

    def sift(self, rows: Rows, judges: Judges) -> Iterator[ScoreRow]:
        """The rows that can be judged; the others are written down as bad."""
        for row in rows:
            if isinstance(row, ScoreRow) and (fault := judges.fault(row)) is not None:
                row = BadRow(row.id, fault.at(row.place))
            if isinstance(row, ScoreRow):
                yield row
                continue
            self.rejects.add(row)
            if self.rejected:
                if self._bad is None:  # open until `write` ends
                    self._bad = open(_temporary(self.rejected), "w", encoding="ascii", newline="\n")  # noqa: SIM115
                self._bad.write(dumps(row.to_json()) + "\n")

    def write(self, lines: Iterator[dict[str, Any]]) -> None:
        """Write the verdicts, then the bad rows. Raises ValueError where there is no verdict at all (then only the bad
        rows are written), and where the disk takes no more (then none)."""
        try:
            self._write(lines)
        except OSError as error:
            if self.out is None:
                raise
            raise ValueError(
                f"--out: {self.out} cannot be written ({error.strerror}); make room, or give another path"
            ) from None

    def _write(self, lines: Iterator[dict[str, Any]]) -> None:
        finished = False

        def some() -> Iterator[dict[str, Any]]:
            nonlocal finished
            first = next(lines, None)
            if first is not None:
                yield first
                yield from lines
            finished = first is not None or bool(self.rejects.reasons)
            if first is None:
                raise ValueError(self._no_verdict())

        try:
            if self.out:
                write_jsonl(self.out, some())
            else:
                for _ in some():
                    pass
        finally:
            self._close(finished)

    def _no_verdict(self) -> str:
        if self.rejects.reasons:
            first = f"; the first is {self.rejects.first}" if self.rejected else ""
            return f"no row can be judged: {self.rejects.line(self.rejected)}{first}"
        return "there are no rows; write one JSON object a line"

    def _close(self, finished: bool) -> None:
        if not self.out:
            return
        _temporary(self.out).unlink(missing_ok=True)
        try:
            if self._bad:
                self._bad.close()
        except OSError:
            _temporary(self.rejected).unlink(missing_ok=True)
            raise
        if not finished:
            _temporary(self.rejected).unlink(missing_ok=True)
        elif self._bad:
            _temporary(self.rejected).replace(self.rejected)
        else:
            self.rejected.unlink(missing_ok=True)  # of a run before


def _check_writable(path: Path, inputs: list[str]) -> None:
    if os.path.exists(path) and not os.path.isfile(path):
        raise ValueError(f"--out: {path} is no file; give the path of a file to write")
    for written in (path, _temporary(path)):
        if any(os.path.exists(read) and os.path.exists(written) and written.samefile(read) for read in inputs):
            raise ValueError(f"--out: {written} is a file that is read; give another one")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(_temporary(path), "w"):
            pass
        _temporary(path).unlink()
    except OSError as error:
        raise ValueError(f"--out: {path} cannot be written ({error.strerror}); give another path") from None


def _temporary(path: Path) -> Path:
    return Path(f"{path}.tmp")
