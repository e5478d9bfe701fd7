"""What a rule of sequential profiling saves and loses, by replaying it over turns whose K rewards are known.

A rule sees a prefix of a turn's rewards. Its signal there, p (1 - p), is estimated from the rewards that it did not
see, without a bias that its choice would bring; where fewer than two are left, from all of them. The fixed K has only
the rewards that chose its pivots, which flatters it by some per cent: the rules' gains are understated.
"""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from statistics import variance

from pivotrl.pivots.sequential import RISK, THRIFT, Fixed, Rule, Settled, Worth, pivot_now

RISKS = (0.005, 0.01, 0.02, RISK, 0.05, 0.1, 0.2, 0.3, 0.4)
THRIFTS = (0.01, 0.1, 0.2, 0.3, THRIFT, 0.7, 1.0)


@dataclass(frozen=True)
class Outcome:
    """One rule over all turns; everything but `samples` is measured against the fixed K."""

    rule: str
    parameter: float | None
    samples: float
    """Of a turn, mean."""
    samples_share: float
    recall: float
    """Share of the fixed K's pivots that the rule finds."""
    precision: float
    """Share of the rule's pivots that are the fixed K's as well."""
    signal_share: float
    """Signal of the rule's pivots, as a share of that of the fixed K's."""
    signal_per_sample: float
    """The same per sample spent: how many times the fixed K's."""

    def to_json(self) -> dict[str, float | str | None]:
        return asdict(self)


def replay(rule: Rule, turns: Sequence[Sequence[float]], max_mean: float) -> tuple[int, list[bool], list[float]]:
    """(samples drawn, is each turn a pivot, each turn's signal). Raises ValueError where a rule wants more than there
    is."""
    drawn, kept, signals = 0, [], []
    for rewards in turns:
        count = 0
        while more := rule.more(rewards[:count]):
            count += more
            if count > len(rewards):
                raise ValueError(f"the rule wants {count} samples and {len(rewards)} are recorded: lower its samples")
        seen, unseen = rewards[:count], rewards[count:]
        drawn += count
        kept.append(pivot_now(sum(seen), count, min(seen) == max(seen), max_mean))
        signals.append(variance(unseen if len(unseen) >= 2 else rewards))
    return drawn, kept, signals


def compare(
    name: str, parameter: float | None, rule: Rule, turns: Sequence[Sequence[float]], max_mean: float
) -> Outcome:
    """A rule against the fixed K, which is as many as each turn has.

    Raises:
        ValueError: none of the turns is a pivot, so there is nothing to find.
    """
    most = len(turns[0])
    spent_by_fixed, truth, all_signals = replay(Fixed(most), turns, max_mean)
    spent, kept, signals = replay(rule, turns, max_mean)
    if not any(truth):
        raise ValueError(f"none of the {len(turns)} turns is a pivot at max_mean {max_mean:g}; give a larger one")
    found = sum(one and other for one, other in zip(kept, truth, strict=True))
    signal = sum(value for one, value in zip(kept, signals, strict=True) if one)
    whole = sum(value for one, value in zip(truth, all_signals, strict=True) if one)
    return Outcome(
        rule=name,
        parameter=parameter,
        samples=spent / len(turns),
        samples_share=spent / spent_by_fixed,
        recall=found / sum(truth),
        precision=found / max(sum(kept), 1),
        signal_share=signal / whole,
        signal_per_sample=signal / spent / (whole / spent_by_fixed),
    )


def curve(turns: Sequence[Sequence[float]], max_mean: float) -> Iterator[Outcome]:
    """From the fixed K to the thriftiest rule; the two operating points of the configuration are among them."""
    most = len(turns[0])
    yield compare("fixed", None, Fixed(most), turns, max_mean)
    for risk in RISKS:
        yield compare("thorough", risk, Settled(most, max_mean, risk), turns, max_mean)
    for thrift in THRIFTS:
        yield compare("thrifty", thrift, Worth(most, max_mean, thrift), turns, max_mean)


def table(outcomes: Sequence[Outcome]) -> str:
    """Lines for a terminal; a star marks the operating points of `pivots.profiling`."""
    lines = [
        f"{'rule':10}{'parameter':>10}{'samples':>9}{'share':>8}{'recall':>8}{'precision':>10}{'signal':>8}"
        f"{'signal per sample':>19}"
    ]
    for row in outcomes:
        star = "*" if row.parameter in (None, {"thorough": RISK, "thrifty": THRIFT}.get(row.rule)) else " "
        parameter = "" if row.parameter is None else f"{row.parameter:g}"
        lines.append(
            f"{row.rule:9}{star}{parameter:>10}{row.samples:9.2f}{row.samples_share:8.1%}{row.recall:8.1%}"
            f"{row.precision:10.1%}{row.signal_share:8.1%}{row.signal_per_sample:18.2f}x"
        )
    return "\n".join(lines)
