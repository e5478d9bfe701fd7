"""What the results say about each arm: its chosen point, its test curve, its cost.

Success and forgetting are in points (hundredths). Forgetting is the change of the families' mean accuracy against the
base's, so less than zero where something was forgotten. Families that the base itself hardly answers cannot be
forgotten: they are shown and not counted in means.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from pivotrl.study.plan import ARM, Arm, Job
from pivotrl.study.results import Point, Results, share
from pivotrl.study.statistics import at, first_reach

KNOWN = 0.5
"""Accuracy of the base from which a family counts."""


@dataclass(frozen=True, slots=True)
class Reached:
    """One point of a run, measured on the test streams."""

    step: int
    success: float
    change: float
    """Of the families' mean accuracy."""
    changes: dict[str, float]
    """Family -> change of its accuracy."""
    log_prob: float
    """Change of the families' mean log-prob of the right answer, nats."""
    chance: float
    """Change of their mean chance of the right answer at temperature 1: it moves before the greedy answer does."""
    bits: str
    """One 0 or 1 a test task."""
    turns: float
    """Rollout turns spent until here, those of the selection included: the base's are the selection's."""
    seconds: float
    """Seconds of the processor spent until here, those of the selection included; measuring is not."""


@dataclass(frozen=True, slots=True)
class Run:
    """One arm's run of one seed at its best rate: the base first, then every point."""

    arm: Arm
    seed: int
    rate: float
    points: list[Reached]
    chosen: int
    """Index of the point with the best validation success."""
    signal_share: float | None
    """Mean share of training groups whose rewards differed, up to the last point."""
    stopped: str
    selection: tuple[float, float]
    """Turns and processor seconds of the selection, which the points' include."""

    @property
    def best(self) -> Reached:
        return self.points[self.chosen]

    def change_at(self, success: float) -> float:
        """The families' change where the run first reaches `success` on its way to the best point, linear between
        points; the best point's where it does not."""
        way = self.points[: self.chosen + 1]
        position = first_reach([(index, point.success) for index, point in enumerate(way)], success)
        return at([(i, p.change) for i, p in enumerate(way)], self.chosen if position is None else position)

    def cost_of(self, success: float, what: str) -> float | None:
        """`turns` or `seconds` until the run first reaches `success`, linear between points; None if it never does."""
        if self.points[0].success >= success:
            return 0.0
        return first_reach([(getattr(p, what), p.success) for p in self.points], success)


@dataclass(frozen=True, slots=True)
class Findings:
    """Everything that a page needs."""

    runs: dict[str, list[Run]]
    """Arm -> its runs, one a seed."""
    base: dict[int, Point]
    """Seed -> the base's point."""
    sweep: dict[str, dict[float, list[tuple[int, float, float]]]]
    """Arm -> rate -> (step, validation success, change of the families on the validation stream)."""
    selections: dict[str, list[Point]]
    """Selection -> its points, one a seed."""


def find(results: Results) -> Findings:
    """Read everything. Raises ValueError where the study is not done."""
    left = results.open_jobs()
    if left:
        raise ValueError(f"{results.folder}: the study is not done ({left[0]} is next); start it again, it continues")
    seeds, rates, arms = results.sizes.seeds, results.best_rates(), [ARM[name] for name in results.sizes.arms]
    base = {seed: results.read(Job("base", "base", seed))["points"][0] for seed in seeds}
    runs = {arm.name: [_run(results, arm, seed, rates[arm.name], base[seed]) for seed in seeds] for arm in arms}
    sweep = {
        arm.name: {
            rate: [
                (point["step"], 100 * share(point["success"]), _change(point, base[seeds[0]]["validation"]))
                for point in results.read(Job("train", arm.name, seeds[0], rate))["points"]
            ]
            for rate in results.sizes.rates
        }
        for arm in arms
    }
    names = {arm.turns for arm in arms if arm.turns}
    selections = {
        name: [results.read(Job("select", name, seed))["points"][0] for seed in seeds] for name in sorted(names)
    }
    return Findings(runs, base, sweep, selections)


def _run(results: Results, arm: Arm, seed: int, rate: float, base: Point) -> Run:
    trained = results.read(Job("train", arm.name, seed, rate))
    tested = results.read(Job("test", arm.name, seed, rate))["points"]
    turns, seconds = selection = selection_cost(results, arm, seed)
    points = [_reached(base, base, turns, seconds)]  # the whole selection is spent before the first step
    for train, test in zip(trained["points"], tested, strict=True):
        seconds += train["processor_seconds"]
        points.append(_reached(test, base, turns + train["rollout_turns"], seconds))
    validation = [share(base["validation"]["success"]), *(share(point["success"]) for point in trained["points"])]
    shares = [point.get("signal_share") for point in trained["points"]]
    return Run(
        arm=arm,
        seed=seed,
        rate=rate,
        points=points,
        chosen=max(range(len(points)), key=lambda index: (validation[index], -index)),
        signal_share=shares[-1] if shares else None,
        stopped=trained.get("stopped", ""),
        selection=selection,
    )


def selection_cost(results: Results, arm: Arm, seed: int) -> tuple[float, float]:
    """(turns, processor seconds) of the arm's selection; nothing where it does not need its profile."""
    if arm.turns in ("", "random"):
        return 0.0, 0.0
    point = results.read(Job("select", arm.turns, seed))["points"][0]
    return point["summary"]["cost"]["samples"], point["processor_seconds"]


def _reached(point: Point, base: Point, turns: float, seconds: float) -> Reached:
    changes = {name: 100 * (share(bits) - share(base["families"][name])) for name, bits in point["families"].items()}

    def mean_change(key: str) -> float:
        names = known(base)
        return sum(point[key][name] - base[key][name] for name in names) / len(names)

    return Reached(
        step=point["step"],
        success=100 * share(point["success"]),
        change=_change(point, base),
        changes=changes,
        log_prob=mean_change("log_probs"),
        chance=100 * mean_change("chances"),
        bits=point["success"],
        turns=turns,
        seconds=seconds,
    )


def known(base: Point) -> list[str]:
    """The families that count."""
    return [name for name, bits in base["families"].items() if share(bits) >= KNOWN]


def _change(point: Point, base: Point) -> float:
    names, families = known(base), point["families"]
    return 100 * sum(share(families[name]) - share(base["families"][name]) for name in names) / len(names)


def pairs(findings: Findings, name: str, other: str) -> Sequence[tuple[Run, Run]]:
    """The runs of two arms, seed by seed."""
    return list(zip(findings.runs[name], findings.runs[other], strict=True))
