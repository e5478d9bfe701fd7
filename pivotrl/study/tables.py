"""The page's tables, in Markdown."""

from collections.abc import Mapping

from pivotrl.study.claims import CHEAP, USUAL, Claim
from pivotrl.study.findings import Findings
from pivotrl.study.plan import ARM
from pivotrl.study.results import share
from pivotrl.study.statistics import bootstrap, over_seeds


def claim_row(claim: Claim) -> tuple[str, ...]:
    bound = f"> {claim.bound:g} {claim.unit}"
    return claim.text, bound, claim.figure, f"**{claim.verdict}**"


def table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    """Markdown."""
    lines = [head, tuple("---" for _ in head), *rows]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines)


def arms_table(findings: Findings) -> str:
    base = list(findings.base.values())
    rows = [
        (
            "base",
            "",
            "0",
            _success([100 * share(point["success"]) for point in base], [point["success"] for point in base]),
            *["0", "0", "0", "", "0"],
        )
    ]
    for name, runs in findings.runs.items():
        zero = [run.signal_share for run in runs]
        rows.append(
            (
                ARM[name].title,
                f"{runs[0].rate:g}",
                ", ".join(str(run.best.step) for run in runs),
                _success([run.best.success for run in runs], [run.best.bits for run in runs]),
                _mean([run.best.change for run in runs], "+.1f"),
                _mean([run.best.chance for run in runs], "+.1f"),
                _mean([run.best.log_prob for run in runs], "+.2f"),
                "" if None in zero else f"{100 * (1 - sum(zero) / len(zero)):.0f} %",
                f"{sum(run.best.turns for run in runs) / len(runs):,.0f}",
            )
        )
    return table(("arm", "rate", "steps", "success", "families", "chance", "log-prob", "zero signal", "turns"), rows)


def _mean(values: list[float], form: str) -> str:
    found = over_seeds(values)
    return f"{found.mean:{form}} [{found.low:{form}}, {found.high:{form}}]"


def _success(values: list[float], bits: list[str]) -> str:
    low, high = bootstrap(bits)
    return f"{_mean(values, '.1f')} {{{100 * low:.1f}, {100 * high:.1f}}}"


def families_table(findings: Findings) -> str:
    base = next(iter(findings.base.values()))
    names = list(base["families"])
    rows = [("base, accuracy in percent", *(f"{100 * share(base['families'][name]):.1f}" for name in names))]
    for arm, runs in findings.runs.items():
        means = (sum(run.best.changes[name] for run in runs) / len(runs) for name in names)
        rows.append((ARM[arm].title, *(f"{mean:+.1f}" for mean in means)))
    return table(("arm", *names), rows)


def cost_table(findings: Findings) -> str:
    """Rollout turns to every tenth percent of success that all seeds of an arm of a pair reach: means over seeds."""
    rows = []
    for own, other in (arms for arms in (USUAL, CHEAP) if findings.runs.keys() >= set(arms)):
        names = f"{ARM[own].title} / {ARM[other].title}"
        for level in range(10, 100, 10):
            spent = [[run.cost_of(level, "turns") for run in findings.runs[name]] for name in (own, other)]
            if not any(all(turns) for turns in spent):
                continue
            mine, its = (sum(turns) / len(turns) if all(turns) else None for turns in spent)
            selection = sum(run.selection[0] for run in findings.runs[own]) / len(findings.runs[own])
            cells = [f"{sum(map(bool, turns))} of {len(turns)} seeds" for turns in spent]
            ratios = ["", ""]
            if mine:
                cells[0] = f"{mine - selection:,.0f} + {selection:,.0f}"
            if its:
                cells[1] = f"{its:,.0f}"
            if mine and its:
                ratios = [f"{its / mine:.1f}", f"{its / (mine - selection):.1f}"]
            rows.append((names, f"{level} %", *cells, *ratios))
    head = ("arms", "success", "first: training + selection", "second", "ratio", "ratio without selection")
    return table(head, rows)


def sweep_table(findings: Findings, points: Mapping[str, tuple[int, ...]]) -> str:
    rows = []
    for name, rates in findings.sweep.items():
        for rate, found in rates.items():
            cells = [f"{success:.0f} / {change:+.1f}" for _, success, change in found]
            cells += ["stopped"] * (len(points[ARM[name].kind]) - len(cells))
            steps = ", ".join(map(str, points[ARM[name].kind]))
            rows.append((ARM[name].title, f"{rate:g}", steps, *cells))
    width = len(points["pivots"])
    return table(("arm", "rate", "steps", *(f"point {n + 1}" for n in range(width))), rows)
