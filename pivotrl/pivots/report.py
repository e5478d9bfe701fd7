"""A selection's summary as text for a terminal."""

import json
from pathlib import Path
from typing import Any

TOOLS_SHOWN = 20
REASONS_IN_A_LINE = 3


def describe(summary: dict[str, Any], out: Path) -> str:
    """A short table: outcomes in all and by the expert's action, verdicts by reason, what was rejected, what it cost,
    where it is."""
    rows = [("all turns", summary), *list(summary["per_tool"].items())[:TOOLS_SHOWN]]
    lines = [f"{'expert action':34}{'turns':>8}{'mixed':>8}{'all pass':>10}{'all fail':>10}{'pivots':>8}{'mean':>8}"]
    for name, counts in rows:
        mean = "-" if counts["mean_reward"] is None else f"{counts['mean_reward']:.3f}"
        lines.append(
            f"{name[:33]:34}{counts['candidates']:>8,}{counts['mixed']:>8,}{counts['all_pass']:>10,}"
            f"{counts['all_fail']:>10,}{counts['pivots']:>8,}{mean:>8}"
        )
    if len(summary["per_tool"]) > TOOLS_SHOWN:
        lines.append(f"... {len(summary['per_tool']) - TOOLS_SHOWN} more actions in summary.json")
    lines.append("(mixed: some of a turn's samples earn more than others)")
    if summary["reasons"]:
        lines.append(f"{'reason of a verdict':34}{'samples':>8}{'share':>8}{'mean':>8}")
    for name, found in summary["reasons"].items():
        lines.append(f"{name[:33]:34}{found['samples']:>8,}{found['share']:>8.1%}{found['mean_reward']:>8.3f}")
    lines += [f"rejected: {reason} {count:,}" for reason, count in summary["rejected"].items()]
    cost = summary["cost"]
    lines.append(
        f"cost: {cost['samples']:,} samples, {cost['sampled_tokens']:,} tokens sampled after {cost['prompt_tokens']:,} "
        f"prompt tokens, in {cost['seconds']:,.0f} s on the clock and {cost['engine_seconds']:,.0f} engine seconds: "
        f"{cost['gpu_hours']:.3g} GPU-hours"
    )
    if not summary["pivots"]:
        lines.append(why_no_pivots(out))
    lines.append(f"pivots: {out / 'pivots.jsonl'}")
    return "\n".join(lines)


def why_no_pivots(source: str | Path) -> str:
    """One line on a selection without pivots: what its turns came to, and what to change.

    Args:
        source: the selection's folder or its `pivots.jsonl`; the `summary.json` there tells the outcomes.
    """
    folder = Path(source) if Path(source).is_dir() else Path(source).parent
    remedy = (
        f"look at the outcomes, reasons and rejections in {folder / 'summary.json'}, then at pivots.max_mean (lambda), "
        "pivots.samples, the section verifier and the trajectories"
    )
    try:
        found = json.loads((folder / "summary.json").read_bytes())
        counts = {name: int(found[name]) for name in ("candidates", "all_fail", "all_pass", "mixed")}
        shares = {str(name): float(reason["share"]) for name, reason in found.get("reasons", {}).items()}
        partial = f"{found['all_partial']:,} always earn the same part, " if found.get("all_partial") else ""
        outcomes = (
            f"of {counts['candidates']:,} turns profiled, {counts['all_fail']:,} always fail, {counts['all_pass']:,} "
            f"always pass, {partial}{counts['mixed']:,} are mixed with a mean of {found['max_mean']:g} (lambda) or more"
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError):  # an older selection's, or none
        return f"no pivots in {folder}: {remedy}"
    most = ", ".join(f"{name} {share:.0%}" for name, share in list(shares.items())[:REASONS_IN_A_LINE])
    reasons = f" (most frequent reasons: {most})" if most else ""
    return f"no pivots in {folder}: {outcomes}{reasons}; {remedy}"
