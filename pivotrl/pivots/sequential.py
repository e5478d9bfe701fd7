"""Sequential profiling: how many more samples a turn is worth, given the rewards of those it has had.

Samples come in rounds of ROUND. `pivots.profiling` names the rule:

- `fixed`: all K at once (the paper).
- `thorough`: until it is settled whether the K samples would make the turn a pivot. Sure of all-fail, of all-pass, of
  mixed below lambda and of mixed above it are one question: can the class that the rewards have now still change?
- `thrifty`: as long as further samples pay. Of the rules that see only the rewards, it is the one that finds the most
  signal, p (1 - p) summed over the kept turns, at a price for each sample; with candidates in abundance the samples
  saved at one turn buy fresh ones.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from math import ceil
from typing import Protocol

from pivotrl.pivots.config import PivotsConfig
from pivotrl.pivots.posterior import PRIOR, Beta, predictive

ROUND = 2
"""Samples of one round. A round of one would save a twentieth more, and doubles the calls of the engine."""
RISK = 0.03
"""Of `thorough`: a turn is dropped once the chance that its K samples would make it a pivot is at most this."""
KEEP_RISK = 0.18
"""Of `thorough`: a turn is kept once the chance that its K samples would not make it a pivot is at most this. Larger
than RISK: what is kept wrongly lies a little above lambda and still teaches, what is dropped wrongly is lost."""
THRIFT = 0.5
"""Of `thrifty`: the price of a sample, as a share of the best signal per sample that can be had. At 1 the rule finds
that best where the prior holds; 0.5 gives up a seventh of it, keeps half as many pivots more, and does better where
many turns always pass."""


class Rule(Protocol):
    def more(self, rewards: Sequence[float]) -> int:
        """Samples to draw next at a turn with these `rewards` (each in [0, 1]) so far; 0: it has had enough.

        A pure function; the first call passes no rewards and never gets 0.
        """


def rule_of(config: PivotsConfig) -> Rule:
    """The rule of `pivots.profiling`. What `thorough` and `thrifty` draw depends on `pivots.max_mean` as well."""
    if config.profiling == "fixed":
        return Fixed(config.samples)
    if config.profiling == "thorough":
        return Settled(config.samples, config.max_mean)
    return Worth(config.samples, config.max_mean)


def pivot_now(rewards_sum: float, samples: int, equal: bool, max_mean: float) -> bool:
    """`select.is_pivot` from what a rule keeps of the rewards."""
    return not equal and rewards_sum / samples < max_mean


@dataclass(frozen=True)
class Fixed:
    """All samples in one round."""

    samples: int

    def more(self, rewards: Sequence[float]) -> int:
        return self.samples - len(rewards)


@dataclass(frozen=True)
class Settled:
    """Stops when the class that the rewards have now (pivot or not) is also that of all `samples`, but for a small
    chance under the posterior: `risk` for a turn that is dropped, KEEP_RISK (or a larger `risk`) for one kept."""

    samples: int
    max_mean: float
    risk: float = RISK
    prior: Beta = PRIOR

    def more(self, rewards: Sequence[float]) -> int:
        left = self.samples - len(rewards)
        if rewards:
            total, equal = sum(rewards), min(rewards) == max(rewards)
            ends_pivot = chance_of_pivot(self, total, len(rewards), rewards[0] if equal else None)
            now = pivot_now(total, len(rewards), equal, self.max_mean)
            if 1 - ends_pivot <= max(KEEP_RISK, self.risk) if now else ends_pivot <= self.risk:
                return 0
        return min(ROUND, left)


@lru_cache(maxsize=4096)
def chance_of_pivot(rule: Settled, total: float, count: int, equal_to: float | None) -> float:
    """The predictive probability that a turn is a pivot once all `rule.samples` are drawn.

    Args:
        total: sum of the `count` rewards so far.
        equal_to: the reward that all of them are; None where they differ.
    """
    left = rule.samples - count
    chances = predictive(rule.prior.after(total, count), left)
    below = sum(chance for j, chance in enumerate(chances) if (total + j) / rule.samples < rule.max_mean)
    if equal_to == 0:
        return below - chances[0]
    if equal_to is None or equal_to == 1:  # a mean of 1 is never below lambda, so a turn that ends below it is mixed
        return below
    # Equal graded rewards: that another comes is believed like a pass after as many fails.
    return min(1 - predictive(rule.prior.after(0, count), left)[0], below)


@dataclass(frozen=True)
class Worth:
    """Draws while a round's expected gain in signal is above its price, by dynamic programming over the counts.

    The best signal per sample, rho, solves V(rho) = 0, where V is the value of a fresh turn when a sample costs rho and
    a kept turn is worth its posterior E[p (1 - p)] (renewal-reward; found by Dinkelbach's iteration). The price is
    `thrift` x rho. A turn that is a pivot by its rewards is always kept: its expected signal is a martingale, so more
    samples cost and bring nothing. A graded turn that is none yet is treated as the turn of 0s and 1s with the next
    larger sum, one of equal graded rewards as all-fail below lambda and as all-pass above.
    """

    samples: int
    max_mean: float
    thrift: float = THRIFT
    prior: Beta = PRIOR

    def more(self, rewards: Sequence[float]) -> int:
        count = len(rewards)
        left = self.samples - count
        if not rewards:
            return min(ROUND, left)
        total, equal = sum(rewards), min(rewards) == max(rewards)
        if not left or pivot_now(total, count, equal, self.max_mean):
            return 0
        passes = (0 if rewards[0] < self.max_mean else count) if equal else ceil(total)
        return min(ROUND, left) if (passes, count) in self._goes_on else 0

    @cached_property
    def best_rate(self) -> float:
        """rho: the most signal per sample that any rule can find, if the prior is right and turns do not run out."""
        rate, better = -1.0, 0.0
        while better > rate:
            rate = better
            (signal, spent), _ = self._solve(rate)
            better = max(rate, signal / spent)
        return rate

    @cached_property
    def _goes_on(self) -> frozenset[tuple[int, int]]:
        return self._solve(self.thrift * self.best_rate)[1]

    def _solve(self, price: float) -> tuple[tuple[float, float], frozenset[tuple[int, int]]]:
        """((expected signal, expected samples) of a fresh turn, the states (passes, samples) that are worth a
        round)."""
        counts = [*range(0, self.samples, ROUND), self.samples]
        ahead: dict[int, tuple[float, float]] = {}
        goes_on = set()
        for place, count in reversed(list(enumerate(counts))):
            here: dict[int, tuple[float, float]] = {}
            for passes in range(count + 1):
                belief = self.prior.after(passes, count)
                kept = count and pivot_now(passes, count, passes in (0, count), self.max_mean)
                here[passes] = (belief.signal if kept else 0.0, 0.0)
                if count == self.samples:
                    continue
                draws = counts[place + 1] - count
                chances = predictive(belief, draws)
                signal = sum(chance * ahead[passes + j][0] for j, chance in enumerate(chances))
                spent = draws + sum(chance * ahead[passes + j][1] for j, chance in enumerate(chances))
                if not count or signal - price * spent > here[passes][0]:
                    here[passes] = (signal, spent)
                    goes_on.add((passes, count))
            ahead = here
        return ahead[0], frozenset(goes_on)
