"""Verdicts by their reason: how often each was given, and what it earned."""

from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

MOST_REASONS = 20
OTHERS = "others"


class Reason(NamedTuple):
    """`share` of all verdicts in [0, 1], and the mean reward of these."""

    samples: int
    share: float
    mean_reward: float


class ReasonTally:
    """Counts verdicts. Reasons are a verifier's few fixed keys; a user's own may have many, so results are capped."""

    def __init__(self) -> None:
        self._samples: Counter[str] = Counter()
        self._rewards: dict[str, float] = {}

    def add(self, rewards: Iterable[float], reasons: Iterable[str]) -> None:
        """Count one group; both have one value a sample. Raises ValueError where they differ in length."""
        for reward, reason in zip(rewards, reasons, strict=True):
            self._samples[reason] += 1
            self._rewards[reason] = self._rewards.get(reason, 0.0) + reward

    @property
    def samples(self) -> int:
        """All that were counted."""
        return self._samples.total()

    def report(self) -> dict[str, Reason]:
        """Reason -> its figures, the most frequent first; beyond `MOST_REASONS` they are together under `OTHERS`."""
        ranked = sorted(self._samples.items(), key=lambda item: (item[0] == OTHERS, -item[1], item[0]))
        shown = ranked[:MOST_REASONS]
        groups = {reason: [reason] for reason, _ in shown}
        for reason, _ in ranked[MOST_REASONS:]:
            groups.setdefault(OTHERS, []).append(reason)
        total = self._samples.total()
        found = {}
        for name, members in groups.items():
            samples = sum(self._samples[member] for member in members)
            earned = sum(self._rewards[member] for member in members)
            found[name] = Reason(samples, samples / total, earned / samples)
        return found
