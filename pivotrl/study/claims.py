"""The paper's four claims, each as a number a seed and a bound; what the numbers say of it."""

from dataclasses import dataclass

from pivotrl.study.findings import Findings, pairs
from pivotrl.study.plan import ARM
from pivotrl.study.statistics import Estimate, over_seeds, over_seeds_of_ratios


@dataclass(frozen=True, slots=True)
class Claim:
    """`estimate` must be above `bound`. `missing` says why there is no estimate, or is empty."""

    text: str
    unit: str
    bound: float
    estimate: Estimate | None
    missing: str = ""

    @property
    def verdict(self) -> str:
        """Shown: the interval over seeds is beyond the bound. In the mean: the mean is, the interval is not."""
        if self.estimate is None:
            return "not shown"
        if self.estimate.low > self.bound:
            return "shown"
        return "in the mean only" if self.estimate.mean > self.bound else "not shown"

    @property
    def figure(self) -> str:
        """Mean, interval, and the seeds' values."""
        if self.estimate is None:
            return self.missing
        found = self.estimate
        values = ", ".join(f"{value:+.1f}" if self.unit == "points" else f"{value:.1f}" for value in found.values)
        sign = "+" if self.unit == "points" else ""
        return f"{found.mean:{sign}.1f} {self.unit} [{found.low:{sign}.1f}, {found.high:{sign}.1f}] ({values})"


def claims(findings: Findings) -> list[Claim]:
    """The four claims in their parts; those of arms that the study has not are left out."""
    made = [
        keeps(findings, "1a", "pivotrl"),
        at_matched_success(findings),
        keeps(findings, "1c", "kl"),
        beats(findings, "2", "sft", "SFT"),
        beats(findings, "3a", "random", "random turns"),
        beats(findings, "3b", "strict", "the strict reward"),
        cost_claim(findings, "4a", "turns", "at least 3 times fewer rollout turns", 3.0),
        cost_claim(findings, "4b", "seconds", "fewer seconds of the processor", 1.0),
        cost_claim(findings, "4c", "turns", "at least 3 times fewer rollout turns", 3.0, CHEAP),
    ]
    return [claim for claim in made if claim is not None]


def keeps(findings: Findings, number: str, name: str) -> Claim | None:
    """An arm's own loss of the families."""
    if name not in findings.runs:
        return None
    text = f"{number}. {ARM[name].title} keeps other skills: change of the families' mean at its best success"
    return Claim(text, "points", -1.0, over_seeds([run.best.change for run in findings.runs[name]]))


def at_matched_success(findings: Findings) -> Claim | None:
    """PivotRL's loss of the families beside SFT's, where both have come equally far."""
    if "sft" not in findings.runs:
        return None
    matched = []
    for own, other in pairs(findings, "pivotrl", "sft"):
        success = min(own.best.success, other.best.success)
        matched.append(own.change_at(success) - other.change_at(success))
    text = "1b. SFT at the same success (the lower of their bests) forgets more: PivotRL's change minus SFT's"
    return Claim(text, "points", 0.0, over_seeds(matched))


def beats(findings: Findings, number: str, other: str, words: str) -> Claim | None:
    """PivotRL's best success beside another arm's."""
    if other not in findings.runs:
        return None
    text = f"{number}. PivotRL beats {words} in the domain: success minus its success, each at its best"
    gains = [own.best.success - its.best.success for own, its in pairs(findings, "pivotrl", other)]
    return Claim(text, "points", 0.0, over_seeds(gains))


USUAL, CHEAP = ("pivotrl", "end_to_end"), ("thrifty", "end_to_end_half")


def cost_claim(
    findings: Findings, number: str, what: str, words: str, bound: float, arms: tuple[str, str] = USUAL
) -> Claim | None:
    """End-to-end RL's cost (`turns` or `seconds`) to its best success, over PivotRL's to the same."""
    if not findings.runs.keys() >= set(arms):
        return None
    ratios, short = [], []
    for own, its in pairs(findings, *arms):
        target = its.best.success
        needed, spent = own.cost_of(target, what), its.cost_of(target, what)
        if not spent:
            short.append(f"seed {own.seed}: its own best is not above the base")
        elif needed is None:
            most = max(point.success for point in own.points)
            short.append(f"seed {own.seed}: {most:.0f} of {target:.0f} points")
        else:
            ratios.append(spent / needed)
    text = f"{number}. {ARM[arms[0]].title} reaches {ARM[arms[1]].title}'s best success with {words}: ratio, "
    text += "selection included"
    if short:
        return Claim(text, "times", bound, None, "not reached on every seed (" + "; ".join(short) + ")")
    return Claim(text, "times", bound, over_seeds_of_ratios(ratios))
