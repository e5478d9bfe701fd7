"""The page's figure: the frontier and what it cost."""

from pivotrl.study.figure import Panel
from pivotrl.study.findings import Findings
from pivotrl.study.plan import ARM
from pivotrl.telemetry.charts import Series


def panels(findings: Findings) -> list[Panel]:
    """Success against forgetting, against rollout turns, and both over steps; lines are means over seeds."""

    def mean_lines(x: str, y: str, scale: float = 1.0) -> dict[str, Series]:
        lines = {}
        for name, runs in findings.runs.items():
            count = min(len(run.points) for run in runs)
            column = [[run.points[n] for run in runs] for n in range(count)]
            lines[ARM[name].title] = [
                (
                    sum(getattr(point, x) for point in points) / len(points) / scale,
                    sum(getattr(point, y) for point in points) / len(points),
                )
                for points in column
            ]
        return lines

    tried: dict[str, Series] = {
        ARM[name].title: [
            (success, change)
            for found in rates.values()
            for _, success, change in sorted(found, key=lambda row: row[1])
        ]
        for name, rates in findings.sweep.items()
    }
    return [
        Panel(
            "Families' change (points) against success (percent), test",
            "success",
            mean_lines("success", "change"),
            high=0.0,
            marks=True,
        ),
        Panel("Families' change against success, whole sweep", "validation success", tried, high=0.0, marks=True),
        Panel(
            "Success (percent) over rollout turns",
            "thousands of turns",
            mean_lines("turns", "success", 1000.0),
            low=0.0,
            marks=True,
        ),
        Panel(
            "Right answers' chance, change in points, against success",
            "success",
            mean_lines("success", "chance"),
            high=0.0,
            marks=True,
        ),
    ]
