"""Fresh pivots: what is drawn for each step, what retires, and what is profiled anew, by beliefs that training updates.

The states of a turn are active (a pivot: training draws it), retired (it was one, or was profiled and is none) and
unprofiled. Training's rewards update the beliefs; an active turn whose next group would hardly carry a signal retires;
a re-profiling samples some of the others with the current policy, and those that are pivots by its rewards become
active. All of it is a pure function of the state and the step, and the state is part of the checkpoint.
"""

import hashlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from pivotrl.pivots.beliefs import Beliefs
from pivotrl.pivots.select import is_pivot, make_profile
from pivotrl.pivots.sequential import Worth
from pivotrl.trajectories.ids import stable_hash
from pivotrl.trajectories.records import Pivot

if TYPE_CHECKING:
    from pivotrl.config import RunConfig

PATIENCE = 3
"""Steps from one re-profiling to the next, at least, where it is for want of signal or of pivots."""


class FreshSampler:
    """In the place of `PivotSampler` where `fresh.enabled`. The same calls in the same order leave the same state, so
    every rank keeps its own."""

    def __init__(self, pool: Sequence[Pivot], pivots: int, config: "RunConfig"):
        """
        Args:
            pool: the pivots of the selection, `pivots` of them, and behind them the other turns (`pivots.pool`).

        Raises:
            ValueError: there are fewer pivots than one batch takes.
        """
        training = config.training
        if pivots < training.pivots_per_step:
            raise ValueError(
                f"training.pivots_per_step is {training.pivots_per_step}, but there are {pivots} pivots; lower it, or "
                "select more pivots"
            )
        self._pool, self._config, self._seed = pool, config.fresh, config.seed
        self._batch_size, self._group_size = training.pivots_per_step, training.group_size
        self._max_mean = config.pivots.max_mean
        self.rounds = 1 + training.dynamic_sampling
        self.rule = Worth(config.fresh.samples, config.pivots.max_mean)
        """Of the re-profiling."""
        counts, names = [], hashlib.sha256()
        for item in pool:
            counts.append((sum(item.profile.rewards), len(item.profile.rewards)))
            names.update(f"{item.id}\0".encode("utf-8", "surrogatepass"))
        passes_N, total_N = np.array(counts, np.float64).reshape(-1, 2).T.copy()
        active_N = np.arange(len(pool)) < pivots
        self._beliefs = Beliefs(passes_N, total_N - passes_N, active_N, config.fresh.memory, names.hexdigest()[:32])
        self._last_profiled = self._reprofiled = self._samples = 0
        self._groups = self._with_signal = 0  # since the last re-profiling
        self._order: tuple[int, np.ndarray] | None = None  # only a cache

    # ------------------------------------------------------------------ drawing

    def batch(self, step: int, draw: int = 0) -> list[Pivot]:
        """The distinct pivots of a step's draw; the draws of a step share none."""
        assert draw < self.rounds
        return [self._pool[index] for index in self._indices(step)[draw * self._batch_size :][: self._batch_size]]

    def _indices(self, step: int) -> list[int]:
        """The turns of all draws of a step, drawn one after the other without putting back.

        Where there are too few active ones, those behind them are the others with the best chance of a signal.
        """
        if self._order is None or self._order[0] != step:
            wanted, active_N = self.rounds * self._batch_size, self._beliefs.active_N
            order_N = self._drawn(active_N, step, "draw", self._config.weights == "variance")
            if len(order_N) < wanted:
                chance_N = np.where(active_N, -1.0, self._beliefs.signal_chance(step, self._group_size))
                order_N = np.concatenate([order_N, np.argsort(-chance_N, kind="stable")])
            self._order = step, order_N[:wanted]
        return self._order[1].tolist()

    def _drawn(self, among_N: np.ndarray, step: int, purpose: str, by_variance: bool) -> np.ndarray:
        """The turns of `among_N` in a random order, in which heavier ones come earlier (Efraimidis and Spirakis 2006:
        the largest u^(1/w) first)."""
        places = np.flatnonzero(among_N)
        noise = np.random.Generator(np.random.PCG64(stable_hash("fresh", purpose, self._seed, step)))
        keys = np.log1p(-noise.random(len(places)))
        if by_variance:
            keys /= self._beliefs.variance(step)[places]
        return places[np.argsort(-keys, kind="stable")]

    # ------------------------------------------------------------------ learning

    def observe(self, step: int, rewards: Sequence[Sequence[float]]) -> None:
        """The rewards of the step's groups, in the order of its draws. Stale pivots retire."""
        for index, group in zip(self._indices(step), rewards):
            self._beliefs.observe(index, list(group), step)
            self._groups += 1
            self._with_signal += min(group) < max(group)
        hopeful_N = self._beliefs.signal_chance(step + 1, self._group_size) >= self._config.retire_below
        self._beliefs.active_N &= hopeful_N
        self._order = None

    # ------------------------------------------------------------------ profiling anew

    def due(self, step: int) -> bool:
        """Whether to re-profile before `step`: by the schedule, for want of signal, or for want of active turns."""
        since, active = step - self._last_profiled, self._beliefs.active_N
        if since == 0 or active.all():
            return False
        wanting = self._with_signal < self._config.below * self._groups or active.sum() < self._batch_size
        return bool(0 < self._config.every <= since or (since >= PATIENCE and wanting))

    def candidates(self, step: int) -> list[int]:
        """Places in the pool of the turns to re-profile: by expected variance, so what has not been seen for long comes
        before what has just failed or passed throughout."""
        return self._drawn(~self._beliefs.active_N, step, "reprofile", True)[: self._config.turns].tolist()

    def turn(self, index: int) -> Pivot:
        return self._pool[index]

    def profiled(self, step: int, rewards: Mapping[int, list[float]]) -> None:
        """What the re-profiling before `step` earned: place in the pool -> rewards."""
        for index, found in rewards.items():
            self._beliefs.observe(index, found, step)
            profile = make_profile(self._pool[index].id, found, [""] * len(found), "", {})
            self._beliefs.active_N[index] = is_pivot(profile, self._max_mean)
            self._samples += len(found)
        self._reprofiled += len(rewards)
        self._last_profiled = step
        self._groups = self._with_signal = 0
        self._order = None

    # ------------------------------------------------------------------ reporting and saving

    def metrics(self) -> dict[str, float]:
        """Turns that training may draw now; turns and samples of all re-profiling so far."""
        return {
            "active_pivots": int(self._beliefs.active_N.sum()),
            "reprofiled_turns": self._reprofiled,
            "profiling_samples": self._samples,
        }

    def state(self) -> bytes:
        """All that a resumed run needs to go on as this one would."""
        counters = [self._last_profiled, self._reprofiled, self._samples]
        return self._beliefs.to_bytes([*counters, self._groups, self._with_signal])

    def restore(self, data: bytes) -> None:
        """Take over a `state`. Raises ValueError where it is not one of this pool."""
        counters = [int(value) for value in self._beliefs.from_bytes(data)]
        self._last_profiled, self._reprofiled, self._samples, self._groups, self._with_signal = counters
        self._order = None
