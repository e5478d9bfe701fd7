"""A selection's summary as text for a terminal."""

import json
from pathlib import Path
from typing import Any

TOOLS_SHOWN = 20
REASONS_IN_A_LINE = 3
ONE_SIDED = 0.5
"""Share of the pivots that one action has where the selection is called one-sided, and at least three times its share
of the turns."""


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
    if (warning := one_sided(summary)) is not None:
        lines.append(warning)
    lines.append(f"pivots: {out / 'pivots.jsonl'}")
    return "\n".join(lines)


def one_sided(summary: dict[str, Any]) -> str | None:
    """A warning where most pivots expect one action that few turns expect; None where they do not. Trained on such a
    selection, the study's policy took that action everywhere (docs/study_settled.md)."""
    pivots, turns = summary["pivots"], summary["candidates"]
    name, counts = max(summary["per_tool"].items(), key=lambda pair: pair[1]["pivots"], default=("", None))
    if (
        not pivots
        or counts["pivots"] < ONE_SIDED * pivots
        or counts["pivots"] * turns < 3 * counts["candidates"] * pivots
    ):
        return None
    return (
        f"warning: {counts['pivots']:,} of {pivots:,} pivots expect {name}, as {counts['candidates'] / turns:.0%} of "
        "the turns do: a policy that trains on little else may come to take that action everywhere; keep all mixed "
        "turns (pivots.keep=mixed), or train for few steps and watch the task's success"
    )


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
