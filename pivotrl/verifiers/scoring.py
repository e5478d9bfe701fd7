"""tools/score.py: a file of rows in, a file of verdicts and a table out."""

import time
from collections.abc import Callable, Iterator
from typing import Any

from pivotrl.verifiers.audit import Donors, audit
from pivotrl.verifiers.base import VerifierConfig
from pivotrl.verifiers.judges import Judges, judged
from pivotrl.verifiers.rows import ScoreRow
from pivotrl.verifiers.score_files import Outputs, Rows
from pivotrl.verifiers.score_table import ProbeTable, ReasonTable, usage_lines


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
