"""The analysis in a few lines for a terminal."""

from typing import Any


def describe(found: dict[str, Any]) -> str:
    """What to know at once: pivots, expected signal, duplicates, leakage, what the context drops."""
    sweeps, everything = found["sweeps"], found["groups"]["all"]
    lines = [
        f"{sweeps['turns']:,} turns profiled: {everything['mixed']:,} mixed, {everything['pivots']:,} pivots at lambda "
        f"{sweeps['lambda']:g}; mean reward {everything['mean']:.3f}",
        f"{'group size':>12}{'pivots':>10}{'all turns':>11}   predicted share of groups with a signal",
    ]
    lines += [
        f"{row['group']:>12}{_percent(row['pivots_posterior']):>10}{_percent(row['all_turns_posterior']):>11}"
        for row in sweeps["signal_by_group"]
    ]
    if twice := found["duplicates"]:
        lines.append(
            f"duplicates: {twice['equal_prompts']:.1%} of the turns have an equal prompt "
            f"({twice['equal_prompts_other_action']:.1%} with another action), {twice['near_prompts']:.1%} a nearly "
            f"equal end, {twice['equal_actions']:.1%} an equal expert action"
        )
    if leak := found["leakage"]:
        lines.append(
            f"leakage: of {leak['compared']:,} held-out trajectories {leak['equal']:,} are in training, and "
            f"{leak['near']:,} nearly"
        )
    if long := found["lengths"]:
        median, longest = long["quantiles"]["0.5"], long["quantiles"]["1"]
        lines.append(
            f"lengths: median {median:,} {long['unit']}, longest {longest:,}; the context dropped {long['dropped']:,} "
            "turns"
        )
    return "\n".join(lines)


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{share:.1%}"
