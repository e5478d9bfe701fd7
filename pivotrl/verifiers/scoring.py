"""tools/score.py: a file of rows in, a file of verdicts and a table out."""

import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from pivotrl.trajectories.store import dumps, write_jsonl
from pivotrl.verifiers.audit import Donors, audit
from pivotrl.verifiers.base import VerifierConfig
from pivotrl.verifiers.judges import Judges, judged
from pivotrl.verifiers.rows import BadRow, ScoreRow
from pivotrl.verifiers.score_table import ProbeTable, ReasonTable, Rejects, usage_lines

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
        """Write the verdicts, then the bad rows. Raises ValueError where there is no verdict at all; then only the bad
        rows are written."""
        finished = False

        def some() -> Iterator[dict[str, Any]]:
            nonlocal finished
            first = next(lines, None)
            if first is not None:
                yield first
                yield from lines
            finished = True
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
        if self._bad:
            self._bad.close()
        if not finished:
            _temporary(self.rejected).unlink(missing_ok=True)
        elif self._bad:
            _temporary(self.rejected).replace(self.rejected)
        else:
            self.rejected.unlink(missing_ok=True)  # of a run before


def score(rows: Rows, run: VerifierConfig, outputs: Outputs, say: Callable[[str], None] = print) -> None:
    """Judge every row, write `{"id", "reward", "reason", "detail"}` a row in order, and print the table of reasons.

    Raises ValueError for a user's mistake, and where no row can be judged.
    """
    table, started = ReasonTable(), time.perf_counter()
    with Judges(run) as judges:

        def lines() -> Iterator[dict[str, Any]]:
            for _, row, verdict in judged(((None, row) for row in outputs.sift(rows, judges)), judges):
                table.add(verdict)
                yield {"id": row.id, "reward": verdict.reward, "reason": verdict.reason, "detail": verdict.detail}

        outputs.write(lines())
        _report(table.lines(), table.rows, "rows", started, outputs, judges, say)


def score_audit(rows: Rows, run: VerifierConfig, outputs: Outputs, say: Callable[[str], None] = print) -> bool:
    """Judge the probes of every row, write those that break, and print the table of probes. `rows` is walked twice.

    Returns whether all hold. Raises ValueError as `score` does.
    """
    table, started = ProbeTable(), time.perf_counter()
    donors = Donors(row.attempt.expert for row in rows if isinstance(row, ScoreRow))
    with Judges(run) as judges:

        def lines() -> Iterator[dict[str, Any]]:
            for probe, row, verdict in audit(outputs.sift(rows, judges), donors, judges):
                table.add(probe, row.id, verdict)
                yield {
                    "id": row.id,
                    "probe": probe.name,
                    "allowed": probe.allowed,
                    "holds": probe.holds(verdict),
                    "reward": verdict.reward,
                    "reason": verdict.reason,
                    "detail": verdict.detail,
                    "response": probe.items,
                }

        outputs.write(lines())
        _report(table.lines(), table.probes, "probes", started, outputs, judges, say)
    return not table.breaks


def _report(
    lines: list[str],
    count: int,
    unit: str,
    started: float,
    outputs: Outputs,
    judges: Judges,
    say: Callable[[str], None],
) -> None:
    seconds = time.perf_counter() - started
    lines = [*lines, f"{count:,} {unit} in {seconds:.1f} s: {count / seconds:,.0f} {unit}/s"]
    if outputs.rejects.reasons:
        lines.append(outputs.rejects.line(outputs.rejected))
    say("\n".join([*lines, *usage_lines(judges.usage())]))


def _check_writable(path: Path, inputs: list[str]) -> None:
    if path.exists() and not path.is_file():
        raise ValueError(f"--out: {path} is no file; give the path of a file to write")
    if any(Path(read).exists() and path.exists() and path.samefile(read) for read in inputs):
        raise ValueError(f"--out: {path} is a file that is read; give another one")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(_temporary(path), "w"):
            pass
        _temporary(path).unlink()
    except OSError as error:
        raise ValueError(f"--out: {path} cannot be written ({error.strerror}); give another path") from None


def _temporary(path: Path) -> Path:
    return Path(f"{path}.tmp")
