"""The analysis as one HTML file, in the style of the run's report."""

from typing import Any

from pivotrl.pivots.analysis import html_checks
from pivotrl.pivots.analysis.examples import CLASSES
from pivotrl.telemetry.charts import histogram, line_chart, stacked_bar
from pivotrl.telemetry.page import escape, number, page, percent, table

ROWS = 20
_COLOURS = {
    "pivot": "var(--green)",
    "mixed_easy": "var(--c0)",
    "all_fail": "var(--red)",
    "all_partial": "var(--orange)",
    "all_pass": "var(--grey)",
}


def render(found: dict[str, Any]) -> str:
    """The page of what `analyse` found."""
    body = [
        f"<h1>Pivots: {escape(found['folder'])}</h1>",
        _lead(found),
        _signal(found["sweeps"]),
        _groups(found["groups"]),
        html_checks.duplicates(found["duplicates"]),
        html_checks.leakage(found["leakage"]),
        html_checks.lengths(found["lengths"]),
        html_checks.examples(found["classes"]),
    ]
    return page(f"Pivots: {found['folder']}", "\n".join(body))


def _lead(found: dict[str, Any]) -> str:
    sweeps, everything = found["sweeps"], found["groups"]["all"]
    cost = found["profiling"]
    words = [
        f"{number(sweeps['turns'])} turns were profiled with {escape(found['policy'])}, "
        f"{number(sweeps['samples_spent'])} samples in all",
        f"{number(everything['mixed'])} ({percent(everything['mixed'] / sweeps['turns'])}) had mixed results",
        f"{number(everything['pivots'])} ({percent(everything['pivots'] / sweeps['turns'])}) are pivots: mixed, with a "
        f"mean reward below lambda = {number(sweeps['lambda'])}",
    ]
    parts = [(CLASSES[kind], one["turns"], _COLOURS[kind]) for kind, one in found["classes"].items()]
    legend = "".join(
        f'<span><i style="background:{colour}"></i>{name}: {number(count)}</span>' for name, count, colour in parts
    )
    spent = "; ".join(f"{escape(key.replace('_', ' '))} {number(value)}" for key, value in cost.items() if value)
    return (
        f'<p class="lead">{"; ".join(words)}.</p><div class="card">{stacked_bar(parts)}'
        f'<div class="legend">{legend}</div></div><p class="soft">Profiling: {spent}.</p>'
    )


def _signal(sweeps: dict[str, Any]) -> str:
    """Predicted signal by group size, and the sweeps over lambda and K."""
    by_group, lambdas, samples = sweeps["signal_by_group"], sweeps["by_lambda"], sweeps["by_samples"]
    rows = [
        [
            number(row["group"]),
            _share(row["pivots_posterior"]),
            _share(row["all_turns_posterior"]),
            _share(row["all_turns"]),
        ]
        for row in by_group
    ]
    groups = line_chart(
        {
            "pivots": [(row["group"], row["pivots_posterior"]) for row in by_group],
            "all turns": [(row["group"], row["all_turns_posterior"]) for row in by_group],
        },
        0.0,
        1.0,
        marks=True,
        over="G",
    )
    head = ["group size G", "pivots", "all turns", "all turns, unbiased"]
    sizes = ("8", "16")
    lambda_rows = [
        [
            f"<b>{number(row['lambda'])}</b>" if row["lambda"] == sweeps["lambda"] else number(row["lambda"]),
            number(row["pivots"]),
            percent(row["share"]),
            "" if row["mean_reward"] is None else number(row["mean_reward"]),
            *(_share(row["signal"][size]) for size in sizes),
        ]
        for row in lambdas
        if round(100 * row["lambda"]) % 10 == 0 or row["lambda"] == sweeps["lambda"]
    ]
    lambda_head = ["lambda", "pivots", "of all turns", "mean reward", *(f"signal at G {size}" for size in sizes)]
    by_lambda = line_chart(
        {"pivots": [(row["lambda"], row["pivots"]) for row in lambdas]}, 0.0, marks=True, over="lambda"
    )
    by_samples = line_chart(
        {name: [(row["samples"], row[name]) for row in samples] for name in ("mixed", "pivots")}, 0.0, over="K"
    )
    common = sweeps["common_samples"]
    return (
        "<h2>Signal to expect</h2><p>A group teaches where its rewards differ. For a turn that succeeds with chance p, "
        "G samples do so with probability 1 - p<sup>G</sup> - (1 - p)<sup>G</sup>. The prediction for pivots knows "
        "that they were chosen by the same samples that it is made from (posterior under a Beta prior fitted to all "
        f"turns, a = {number(sweeps['prior']['a'])}, b = {number(sweeps['prior']['b'])}); the unbiased column is free "
        f"of a prior, and there are no such figures beyond the {common} samples that every turn has.</p>"
        f'<div class="grid"><figure><h3>Groups with a signal</h3><figcaption>Predicted share, by group size G.'
        f'</figcaption>{groups}</figure><div class="card">{table(head, rows, {0, 1, 2, 3})}</div></div>'
        "<h2>What other settings would have found</h2>"
        f'<div class="grid"><figure><h3>Pivots by lambda</h3><figcaption>Mixed turns with a mean reward below it; this '
        f"selection used {number(sweeps['lambda'])}.</figcaption>{by_lambda}</figure><figure><h3>Turns by K</h3>"
        f"<figcaption>Mixed turns and pivots that K samples a turn would find, on average over all choices of K of the "
        f"{common} samples.</figcaption>{by_samples}</figure></div>"
        f'<div class="card">{table(lambda_head, lambda_rows, set(range(6)))}</div>'
    )


def _groups(groups: dict[str, Any]) -> str:
    """Reward by tool, depth, trajectory and reason."""
    trajectory = groups["by_trajectory"]
    tenths = histogram(trajectory["means_in_tenths"], 0.1, "trajectories")
    reasons = [
        [escape(name), number(one["samples"]), percent(one["share"]), number(one["mean"]), number(one["variance"])]
        for name, one in list(groups["by_reason"].items())[:ROWS]
    ]
    facts = [
        ["trajectories", number(trajectory["trajectories"])],
        ["with a pivot", number(trajectory["with_pivots"])],
        ["mean of their mean rewards", number(trajectory["mean_of_means"])],
        ["variance of their mean rewards", number(trajectory["between"])],
    ]
    return (
        "<h2>Rewards</h2><p>The variance within a turn is that of its samples: what a group can learn from. The "
        "variance between turns says how much harder some are than others.</p>"
        f"{_title('By expert action')}{_moments(groups['by_tool'])}{_title('By turn of the trajectory')}"
        f"{_moments(groups['by_depth'])}{_title('By reason of the verdict')}"
        f'<div class="card">{table(["", "samples", "share", "mean reward", "variance"], reasons, {1, 2, 3, 4})}'
        f"{_more(groups['by_reason'])}</div>{_title('By trajectory')}"
        '<div class="grid"><figure><h3>Mean reward of a trajectory</h3><figcaption>How many trajectories have it.'
        f'</figcaption>{tenths}</figure><div class="card">{table(["", ""], facts, {1})}</div></div>'
        f"{_title('The trajectories with the most pivots')}{_moments(trajectory['most_pivots'], False)}"
    )


def _title(words: str) -> str:
    return f'<h3 style="margin-top:18px">{words}</h3>'


def _moments(groups: dict[str, dict[str, Any]], shares: bool = True) -> str:
    """A table of groups; `shares`: they are all there are, so a share of the whole is told."""
    total = sum(one["turns"] for one in groups.values())
    rows = [
        [
            escape(name),
            number(one["turns"]),
            *([percent(one["turns"] / total)] if shares else []),
            number(one["pivots"]),
            percent(one["mixed"] / one["turns"]),
            number(one["mean"]),
            number(one["within"]),
            number(one["between"]),
        ]
        for name, one in list(groups.items())[:ROWS]
    ]
    head = [
        "",
        "turns",
        *(["share"] if shares else []),
        "pivots",
        "mixed",
        "mean reward",
        "variance within",
        "between turns",
    ]
    return f'<div class="card">{table(head, rows, set(range(1, len(head))))}{_more(groups)}</div>'


def _more(groups: dict[str, Any]) -> str:
    return f'<p class="soft">and {len(groups) - ROWS} more</p>' if len(groups) > ROWS else ""


def _share(value: float | None) -> str:
    return "" if value is None else percent(value)
