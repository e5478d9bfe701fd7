"""The files of a comparison: `evaluation.json` with every item's results, and `report.html`."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pivotrl.config import RunConfig
from pivotrl.evaluation.comparison import Result, compare
from pivotrl.evaluation.html import render
from pivotrl.trajectories.store import write_json


def write(config: RunConfig, results: Sequence[Result], sources: dict[str, str], folder: Path) -> dict[str, Any]:
    """Compare, and write both files into `folder`; each appears whole. Returns the comparison.

    Args:
        results: of `evaluate`, the base first.
        sources: name -> where the policy's weights came from.

    Raises:
        ValueError: as `compare`.
    """
    parts = config.evaluation
    comparison = compare(results, parts.draws, parts.confidence, parts.seed)
    facts: dict[str, Any] = {f"policy {name}": source for name, source in sources.items()}
    facts |= {f"weights of {result['name']}": result["weights"] for result in results}
    facts |= {
        "trajectories": ", ".join(config.trajectories.files),
        "share held out": config.trajectories.heldout_share,
        "verifier": config.verifier.name,
        "samples of a turn": parts.samples,
        "temperature": parts.temperature,
        "live world": f"{parts.environment}, tasks of stream {parts.stream}" if parts.environment else "none",
        "questions": parts.families or "none",
        "seed": parts.seed,
    }
    folder.mkdir(parents=True, exist_ok=True)
    write_json(folder / "evaluation.json", {"comparison": comparison, "sources": sources, "results": list(results)})
    temporary = folder / "report.html.tmp"
    temporary.write_text(render(comparison, facts), encoding="utf-8")
    os.replace(temporary, folder / "report.html")
    return comparison
