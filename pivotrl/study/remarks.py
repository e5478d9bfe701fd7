"""What the numbers themselves say about how far to trust them, and where an arm fell short."""

from pivotrl.study.claims import Claim
from pivotrl.study.findings import Findings
from pivotrl.study.plan import ARM
from pivotrl.study.results import Point, Results


def remarks(findings: Findings, results: Results, made: list[Claim]) -> list[str]:
    """One line each."""
    rates = results.sizes.rates
    lines = []
    for name, runs in findings.runs.items():
        arm = ARM[name]
        if runs[0].rate in (rates[0], rates[-1]):
            edge = "smallest" if runs[0].rate == rates[0] else "largest"
            lines.append(f"{arm.title}: its best rate is the {edge} of the sweep, so a better one may lie beyond.")
        if late := [run.seed for run in runs if run.chosen == len(run.points) - 1]:
            lines.append(f"{arm.title}: the last point is the best on seed {_words(late)}; more steps may still gain.")
        lines += [f"{arm.title}, seed {run.seed}: ended early ({run.stopped})." for run in runs if run.stopped]
    lines += [_cost_line(name, points) for name, points in findings.selections.items()]
    lines.append(_harm_line(findings))
    for claim in made:
        if claim.verdict != "shown" and claim.estimate is not None:
            values = claim.estimate.values
            missed = sum(value <= claim.bound for value in values)
            lines.append(
                f"Claim {claim.text.split('.')[0]} is {claim.verdict}: {missed} of {len(values)} seeds miss its bound."
            )
    return lines


def _cost_line(name: str, points: list[Point]) -> str:
    summaries = [point["summary"] for point in points]
    seconds = sum(point["processor_seconds"] for point in points) / len(points)
    kept = ", ".join(
        f"{summary['pivots']} of {summary['candidates']} ({summary['mixed']} mixed)" for summary in summaries
    )
    charged = "" if name != "random" else "; not charged, since random turns need no profile"
    return f"Selection {name}: kept {kept} turns (one a seed), {seconds:.0f} s of the processor each{charged}."


def _harm_line(findings: Findings) -> str:
    """At which of the test points every arm forgot most, seeds together."""
    worst = {
        ARM[name].title: min(point.change for run in runs for point in run.points)
        for name, runs in findings.runs.items()
    }
    return (
        "Most forgotten at any test point: " + ", ".join(f"{name} {value:+.1f}" for name, value in worst.items()) + "."
    )


def _words(seeds: list[int]) -> str:
    return ", ".join(map(str, seeds))
