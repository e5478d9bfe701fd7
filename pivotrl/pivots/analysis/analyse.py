"""The whole analysis of a selection: two passes over its trajectories, counters and samples of fixed size."""

import os
from pathlib import Path
from typing import Any

from pivotrl.pivots.analysis.duplicates import Duplicates
from pivotrl.pivots.analysis.examples import Examples
from pivotrl.pivots.analysis.folder import Selection
from pivotrl.pivots.analysis.groups import Groups
from pivotrl.pivots.analysis.leakage import Leakage
from pivotrl.pivots.analysis.lengths import Lengths
from pivotrl.pivots.analysis.sweeps import Sweeps
from pivotrl.pivots.analysis.walk import walk
from pivotrl.telemetry.progress import Progress

REPORT = "analysis.html"


def analyse(selection: Selection) -> dict[str, Any]:
    """What `write_analysis` shows, as JSON values.

    Raises:
        ValueError: the profiles or the trajectories cannot be read, or do not belong together.
    """
    common, turns = 0, 0
    for profile in selection.profiles():
        turns += 1
        common = min(common or len(profile.rewards), len(profile.rewards))
    if not turns:
        raise ValueError(f"{selection.folder / 'profile.jsonl'}: no turn was profiled; select the pivots first")
    groups, sweeps = Groups(selection.max_mean), Sweeps(selection.max_mean, common)
    examples, lengths = Examples(selection.max_mean), Lengths(selection)
    duplicates, leakage = Duplicates(), Leakage()
    with Progress(2 * turns, "analysis", "turn") as progress:
        for seen in walk(selection):
            profiles = [profile for _, profile in seen.turns if profile is not None]
            for profile in profiles:
                sweeps.add(profile)
            for part in (groups, examples, lengths):
                part.add(seen)
            duplicates.choose(seen)
            leakage.choose(seen)
            progress.advance(len(profiles))
        for seen in walk(selection):
            duplicates.compare(seen)
            leakage.compare(seen)
            progress.advance(sum(profile is not None for _, profile in seen.turns))
    return {
        "folder": str(selection.folder),
        "policy": selection.model,
        "profiling": {
            "samples": selection.summary.get("samples"),
            "profiling": selection.summary.get("profiling", "fixed"),
            **{f"cost_{key}": value for key, value in selection.summary.get("cost", {}).items()},
        },
        "groups": groups.report(),
        "sweeps": sweeps.report(),
        "duplicates": duplicates.report(),
        "leakage": leakage.report(),
        "lengths": lengths.report(),
        "classes": examples.report(),
    }


def write_analysis(selection: Selection, out: str | Path | None = None) -> tuple[dict[str, Any], Path]:
    """Analyse, and write the page (`analysis.html` in the selection's folder by default), which replaces an older one
    whole. Returns the analysis and the page's path.

    Raises:
        ValueError: as `analyse`.
    """
    from pivotrl.pivots.analysis.html import render

    found = analyse(selection)
    path = Path(out) if out else selection.folder / REPORT
    temporary = path.with_name(path.name + ".tmp")
    temporary.write_text(render(found), encoding="utf-8")
    os.replace(temporary, path)
    return found, path
