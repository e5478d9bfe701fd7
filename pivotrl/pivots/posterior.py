"""What is believed of a turn's pass rate p after some samples: a Beta distribution (Beta-Binomial model).

A graded reward r in [0, 1] counts as r passes and 1 - r fails. Its spread is then the largest that its mean allows, so
whatever is judged sure of a graded turn is at least as sure in truth.
"""

from dataclasses import dataclass
from functools import lru_cache
from math import comb, exp, lgamma


@dataclass(frozen=True, slots=True)
class Beta:
    """Beta(passes, fails) over p."""

    passes: float
    """Above 0; prior and samples together."""
    fails: float

    @property
    def mean(self) -> float:
        return self.passes / (self.passes + self.fails)

    @property
    def signal(self) -> float:
        """E[p (1 - p)]: the expected variance of a reward of 0 or 1, which is what a group can teach."""
        total = self.passes + self.fails
        return self.passes * self.fails / (total * (total + 1))

    def after(self, reward_sum: float, samples: int) -> "Beta":
        """The posterior after `samples` rewards that sum to `reward_sum`."""
        return Beta(self.passes + reward_sum, self.fails + samples - reward_sum)

    def faded(self, keep: float, prior: "Beta") -> "Beta":
        """The belief with only the share `keep` of what it knows beyond `prior`: p may have moved since."""
        return Beta(prior.passes + keep * (self.passes - prior.passes), prior.fails + keep * (self.fails - prior.fails))

    def equal_chance(self, samples: int) -> float:
        """The chance that `samples` rewards to come are all 0 or all 1: a group without a signal."""
        chances = predictive(self, samples)
        return chances[0] + chances[-1]


PRIOR = Beta(0.31, 1.36)
"""Of a turn that was never sampled: the Beta-Binomial of greatest likelihood for the published pass rates of 16 samples
(`distributions.PUBLISHED`)."""


@lru_cache(maxsize=4096)
def predictive(belief: Beta, samples: int) -> tuple[float, ...]:
    """[samples + 1]: the chance of j passes among `samples` further ones (the Beta-Binomial distribution)."""
    at = _log_beta(belief.passes, belief.fails)
    return tuple(
        comb(samples, j) * exp(_log_beta(belief.passes + j, belief.fails + samples - j) - at)
        for j in range(samples + 1)
    )


def _log_beta(a: float, b: float) -> float:
    return lgamma(a) + lgamma(b) - lgamma(a + b)
