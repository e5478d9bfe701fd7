"""Groups that stop early (`rollout.early_stop`): a group whose first rewards are all equal need not be finished.

Let y_1 .. y_G be a group's samples, r their rewards and g = sum_i A_i(r_1 .. r_G) grad log p(y_i) what the group adds
to the gradient. The first m samples, by number, are sampled and judged; S is the event that r_1 = ... = r_m. Outside S
the group goes on. In S it goes on with chance q (`keep`), by a coin that knows nothing of the samples. So it goes on
with chance c = 1 outside S and c = q in S. Multiply what a group that goes on adds by w = 1 / c, and let one that stops
add nothing. The coin is independent of the samples, and c follows from them alone, so

    E[w g 1{goes on}] = E[g / c  P(goes on | y_1 .. y_G)] = E[g / c  c] = E[g]

(Horvitz and Thompson 1952; "Russian roulette" in the simulation of particles). It holds for every A, so for each of
`objective.advantage`, and needs q > 0. With q = 0 what is lost is E[g 1_S]: groups that look settled and are not, most
of them of the hardest and of the easiest pivots. Clipping the gradient and Adam are not linear: they see a gradient of
the right mean and of more variance.

The loss is divided by one number for the whole batch. A group that stopped stays in it as the G samples that it would
have been, so for `sequence_mean` and `constant` that number is a constant and the gradient's mean is exact. For
`token_mean` it is the number of response tokens, random in any case; the samples that a group lacks count with the mean
length of those that it has, an estimate.

By number, not by who finishes first: the m samples that finish first are the short ones. The argument above would still
hold for the gradient of a group that goes on whole, but not for one that is left with those that finished, nor for any
mean over them (reward, reasons, length, the denominator of `token_mean`). And a clock would decide, so that nothing
could be replayed: here the decision is a function of tokens, verdicts and seed, the same on every rank and in every
attempt.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from pivotrl.trajectories.ids import stable_hash


@dataclass(frozen=True, slots=True)
class Stopping:
    """What was decided of one group."""

    after: int
    """Samples, the first by number, that it was decided by."""
    size: int
    """Samples of a whole group."""
    weight: float
    """Of the group's loss: 1 where its rewards differ, 1 / keep where it went on by chance, 0 where it was stopped."""

    @property
    def saved(self) -> int:
        """Samples that were not drawn."""
        return self.size - self.after if self.stopped else 0

    @property
    def stands_for(self) -> float:
        """Samples that each of the group's counts as in the loss's denominator."""
        return self.size / (self.size - self.saved)

    @property
    def stopped(self) -> bool:
        return self.weight == 0


def decide(rewards: Sequence[float], size: int, keep: float, coin: float) -> Stopping:
    """Whether a group goes on, by the rewards of its first samples.

    Args:
        size: samples of a whole group.
        keep: chance that a group of equal rewards goes on.
        coin: uniform in [0, 1), independent of the samples; see `coin_of`.
    """
    assert 1 < len(rewards) < size
    if min(rewards) < max(rewards):
        return Stopping(len(rewards), size, 1.0)
    return Stopping(len(rewards), size, 1 / keep if coin < keep else 0.0)


def coin_of(seed: int) -> float:
    """The coin of the group whose request has this seed: uniform in [0, 1), unrelated to what is sampled from it."""
    return stable_hash("early stop", seed) % 2**53 / 2**53
