"""Mean and variance of rewards by the expert's tool, by depth, by trajectory and by the verdict's reason."""

import heapq
from typing import Any

from pivotrl.pivots.analysis.walk import Seen
from pivotrl.pivots.select import is_pivot
from pivotrl.trajectories.actions import action_kind
from pivotrl.trajectories.records import Profile

MOST_KEYS = 1000
"""Keys that are counted apart; what comes later is counted under `OTHERS`."""
OTHERS = "(others)"
DEEPEST = 200
LISTED = 10
"""Trajectories that are named."""


class Moments:
    """Sums over the profiles of one group of turns."""

    __slots__ = ("between", "mean", "mixed", "pivots", "turns", "within")

    def __init__(self) -> None:
        self.turns = self.mixed = self.pivots = 0
        self.mean = self.between = self.within = 0.0
        """Running mean of the turns' means, sum of squared distances from it (Welford), and sum of unbiased variances
        of the samples of a turn."""

    def add(self, profile: Profile, pivot: bool) -> None:
        samples = len(profile.rewards)
        self.turns += 1
        self.mixed += profile.variance > 0
        self.pivots += pivot
        distance = profile.mean - self.mean
        self.mean += distance / self.turns
        self.between += distance * (profile.mean - self.mean)
        self.within += profile.variance * samples / (samples - 1)

    def report(self) -> dict[str, Any]:
        """`within`: mean variance of a turn's samples (unbiased); `between`: variance of the turns' means."""
        return {
            "turns": self.turns,
            "mixed": self.mixed,
            "pivots": self.pivots,
            "mean": self.mean,
            "within": self.within / self.turns,
            "between": self.between / self.turns,
        }


class Reasons:
    """Verdicts of one reason."""

    __slots__ = ("samples", "square", "total")

    def __init__(self) -> None:
        self.samples, self.total, self.square = 0, 0.0, 0.0

    def report(self, all_samples: int) -> dict[str, Any]:
        mean = self.total / self.samples
        variance = max(0.0, self.square / self.samples - mean * mean)
        return {"samples": self.samples, "share": self.samples / all_samples, "mean": mean, "variance": variance}


class Groups:
    """Counters by key; a trajectory is forgotten when its last turn was seen.

    Turns of one trajectory that a file holds as rows of their own count together where they follow each other.
    """

    def __init__(self, max_mean: float) -> None:
        self._max_mean = max_mean
        self._all = Moments()
        self._tools: dict[str, Moments] = {}
        self._depths: dict[int, Moments] = {}
        self._reasons: dict[str, Reasons] = {}
        self._samples = 0
        self._open: tuple[str, Moments] | None = None
        self._trajectories = self._with_pivots = 0
        self._histogram = [0] * 10
        self._mean = self._between = 0.0
        self._most: list[tuple[int, int, str, dict[str, Any]]] = []

    def add(self, seen: Seen) -> None:
        name = seen.trajectory.id
        if self._open and self._open[0] != name:
            self._close()
        for turn, profile in seen.turns:
            if profile is None:
                continue
            self._open = self._open or (name, Moments())
            pivot = is_pivot(profile, self._max_mean)
            depth = min(turn.turn_index, DEEPEST)
            tool = _kept(self._tools, action_kind(turn.expert))
            for moments in (
                self._all,
                self._open[1],
                self._tools.setdefault(tool, Moments()),
                self._depths.setdefault(depth, Moments()),
            ):
                moments.add(profile, pivot)
            for reward, reason in zip(profile.rewards, profile.reasons, strict=True):
                found = self._reasons.setdefault(_kept(self._reasons, reason), Reasons())
                found.samples += 1
                found.total += reward
                found.square += reward * reward
            self._samples += len(profile.rewards)

    def report(self) -> dict[str, Any]:
        """Everything as JSON values, tools and reasons by falling frequency; of no turn, empty."""
        self._close()
        if not self._all.turns:
            return {}
        tools = sorted(self._tools.items(), key=lambda item: (-item[1].turns, item[0]))
        reasons = sorted(self._reasons.items(), key=lambda item: (-item[1].samples, item[0]))
        listed = sorted(self._most, key=lambda entry: (-entry[0], -entry[1]))
        return {
            "all": self._all.report(),
            "by_tool": {name: moments.report() for name, moments in tools},
            "by_depth": {str(depth): self._depths[depth].report() for depth in sorted(self._depths)},
            "by_reason": {name: reason.report(self._samples) for name, reason in reasons},
            "by_trajectory": {
                "trajectories": self._trajectories,
                "with_pivots": self._with_pivots,
                "mean_of_means": self._mean,
                "between": self._between / self._trajectories,
                "means_in_tenths": self._histogram,
                "most_pivots": {name: found for _, _, name, found in listed},
            },
        }

    def _close(self) -> None:
        if self._open is None:
            return
        (name, moments), self._open = self._open, None
        self._trajectories += 1
        self._with_pivots += moments.pivots > 0
        self._histogram[min(int(10 * moments.mean), 9)] += 1
        distance = moments.mean - self._mean
        self._mean += distance / self._trajectories
        self._between += distance * (moments.mean - self._mean)
        place = heapq.heappush if len(self._most) < LISTED else heapq.heappushpop
        place(self._most, (moments.pivots, -self._trajectories, name, moments.report()))


def _kept(groups: dict[str, Any], name: str) -> str:
    return name if name in groups or len(groups) < MOST_KEYS else OTHERS
