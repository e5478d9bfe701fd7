"""A run folder as one HTML file that anyone can open: no network, no script, nothing beside it."""

import os
from pathlib import Path

from pivotrl.telemetry import sections
from pivotrl.telemetry.cost import cost
from pivotrl.telemetry.curves import curves
from pivotrl.telemetry.page import escape, page
from pivotrl.telemetry.reasons import reasons
from pivotrl.telemetry.run_files import read_run


def write_report(run_dir: str | Path, out_html: str | Path | None = None) -> Path:
    """Write the report of a run, finished or not, and return its path (`report.html` in the run folder by default).

    Files that are missing or broken are named in the report instead of shown. The new file replaces the old one whole.

    Raises:
        ValueError: the folder does not exist or holds nothing to report.
    """
    run = read_run(run_dir)
    out = Path(run_dir) / "report.html" if out_html is None else Path(out_html)
    body = [
        f"<h1>PivotRL: {escape(run.name)}</h1>",
        sections.lead(run),
        sections.health(run),
        sections.headline(run),
        cost(run),
        sections.selection(run),
        curves(run),
        reasons(run),
        sections.examples(run),
        sections.totals(run),
        sections.notes(run),
    ]
    temporary = out.with_name(out.name + ".tmp")
    temporary.write_text(page(f"PivotRL: {run.name}", "\n".join(body)), encoding="utf-8")
    os.replace(temporary, out)
    return out
