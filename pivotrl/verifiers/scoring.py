"""tools/score.py: a file of rows in, a file of verdicts and a table out."""

import time
from collections.abc import Callable, Iterator
from typing import Any

from pivotrl.verifiers.audit import Donors, audit
from pivotrl.verifiers.base import VerifierConfig
from pivotrl.verifiers.completions import CompletionParser
from pivotrl.verifiers.judges import FIRST_ROWS, Judges, judged
from pivotrl.verifiers.progress import Progress
from pivotrl.verifiers.rows import ScoreRow
from pivotrl.verifiers.score_files import Outputs, Rows
from pivotrl.verifiers.score_table import FaultLines, ProbeTable, ReasonTable, usage_lines


def score(
    rows: Rows,
    run: VerifierConfig,
    outputs: Outputs,
    say: Callable[[str], None] = print,
    parser: CompletionParser | None = None,
) -> bool:
    """Judge every row, write `{"id", "reward", "reason", "detail"}` a row in order, and print the table of reasons.

    Returns False where the verifier failed on every row. `parser` is what `rows` reads completions by; the time it
    takes to load is no time of judging. Raises ValueError for a user's mistake, and where no row can be judged.
    """
    table, faults, started = ReasonTable(), FaultLines(), time.perf_counter()
    progress = Progress("rows")
    with Judges(run, progress.add) as judges:

        def lines() -> Iterator[dict[str, Any]]:
            for _, row, verdict in judged(((None, row) for row in outputs.sift(rows, judges)), judges):
                table.add(verdict)
                faults.add(verdict)
                yield {"id": row.id, "reward": verdict.reward, "reason": verdict.reason, "detail": verdict.detail}

        with progress:
            outputs.write(lines())
        loading = parser.seconds_to_load if parser else 0.0
        seconds = time.perf_counter() - started - loading
        speed = _speed(table.rows, "rows", seconds, loading)
        said = [*table.lines(), speed, *_rejects(outputs), *usage_lines(judges.usage()), *faults.lines("rows")]
        say("\n".join(said))
    return not faults.all_failed


def score_audit(rows: Rows, run: VerifierConfig, outputs: Outputs, say: Callable[[str], None] = print) -> bool:
    """Judge the probes of every row, write those that break, and print the table of probes. `rows` is walked twice.

    Stops where the first FIRST_ROWS probes all end in a time limit. Returns whether all hold. Raises ValueError as
    `score` does.
    """
    table, faults, started = ProbeTable(), FaultLines(), time.perf_counter()
    stopped = False
    donors = Donors(row.attempt.expert for row in rows if isinstance(row, ScoreRow))
    progress = Progress("probes")
    with Judges(run, progress.add) as judges:

        def lines() -> Iterator[dict[str, Any]]:
            nonlocal stopped
            for probe, row, verdict in audit(outputs.sift(rows, judges), donors, judges):
                table.add(probe, row.id, verdict)
                faults.add(verdict)
                yield {
                    "id": row.id,
                    "probe": probe.name,
                    "allowed": probe.allowed,
                    "holds": probe.holds(verdict),
                    "reward": verdict.reward,
                    "reason": verdict.reason,
                    "detail": verdict.detail,
                    "response": probe.items,
                    "text": probe.text,
                }
                if faults.rows == FIRST_ROWS == faults.counts["time_limit"]:
                    stopped = True
                    return

        with progress:
            outputs.write(lines())
        speed = _speed(table.probes, "probes", time.perf_counter() - started)
        said = [*table.lines(), speed, *_rejects(outputs), *usage_lines(judges.usage()), *faults.lines("probes")]
        if stopped:
            said.append(
                f"stopped: the first {FIRST_ROWS} probes all ran into the time limit of {run.seconds:g} s; look for a "
                "loop that does not end, or give more by --seconds"
            )
        say("\n".join(said))
    return not table.breaks


def _speed(count: int, unit: str, seconds: float, loading: float = 0.0) -> str:
    line = f"{count:,} {unit} in {seconds:.1f} s: {count / max(seconds, 1e-6):,.0f} {unit}/s"
    return f"{line} (beside {loading:.1f} s to load vLLM's parsers)" if loading else line


def _rejects(outputs: Outputs) -> list[str]:
    return [outputs.rejects.line(outputs.rejected)] if outputs.rejects.reasons else []
