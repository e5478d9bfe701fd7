"""A selection's summary as text for a terminal."""

from pathlib import Path
from typing import Any

TOOLS_SHOWN = 20


def describe(summary: dict[str, Any], out: Path) -> str:
    """A short table: outcomes in all and by the expert's action, what was rejected, what it cost, where it is."""
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
    lines += [f"rejected: {reason} {count:,}" for reason, count in summary["rejected"].items()]
    lines.append(
        f"{summary['sampled_tokens']:,} tokens sampled after {summary['prompt_tokens']:,} prompt tokens "
        f"in {summary['engine_seconds']:,.0f} engine seconds"
    )
    lines.append(f"pivots: {out / 'pivots.jsonl'}")
    return "\n".join(lines)
