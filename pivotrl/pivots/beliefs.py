"""What is believed of every turn's pass rate under the policy as it moves: Beta posteriors that forget.

Legend: N = turns of the pool.

A turn seen d steps ago keeps the share memory^d of its evidence; the rest of the belief is a prior of PRIOR_STRENGTH
samples about the pass rate of now: that of all rewards of late, faded alike. So what training does for turns at large
moves the belief in those that it has not touched.
"""

import io
import zipfile

import numpy as np

PRIOR_STRENGTH = 0.6
"""Passes and fails of the prior together: below 1 it is U-shaped, as pass rates are (most turns are near 0 or 1)."""
ANCHOR = 4.0
"""Passes, and fails, that the pass rate of now starts from."""

_NOT_THE_POOL = "the pivots or the trajectories are not what they were; set them back, or choose another output folder"


class Beliefs:
    """Arrays of N; every method is vectorised over them."""

    def __init__(self, passes_N: np.ndarray, fails_N: np.ndarray, active_N: np.ndarray, memory: float, pool: str = ""):
        """
        Args:
            passes_N, fails_N: float64, sums of the selection's rewards and of 1 - reward; both 0 where a turn was never
                profiled.
            active_N: bool, the turns that training may draw.
            memory: share of the evidence that is left a step later.
            pool: names the turns and their order; a state of other ones is refused.
        """
        self._memory, self._pool = memory, pool
        self.passes_N, self.fails_N = passes_N, fails_N
        self.seen_N = np.zeros(len(passes_N), np.int32)
        """Step of the last rewards."""
        self.active_N = active_N
        self._now = np.zeros(2)
        """Passes and fails of all turns, faded up to step `_now_step`."""
        self._now_step = 0

    def observe(self, index: int, rewards: list[float], step: int) -> None:
        """Rewards of one turn, of samples of `step`."""
        fade = self._memory ** (step - int(self.seen_N[index]))
        new = np.array([sum(rewards), len(rewards) - sum(rewards)])
        self.passes_N[index] = self.passes_N[index] * fade + new[0]
        self.fails_N[index] = self.fails_N[index] * fade + new[1]
        self.seen_N[index] = step
        self._now = self._now * self._memory ** (step - self._now_step) + new
        self._now_step = step

    def posterior(self, step: int) -> tuple[np.ndarray, np.ndarray]:
        """The Beta distributions at `step`: passes_N, fails_N with the prior."""
        faded = self._now * self._memory ** (step - self._now_step) + ANCHOR
        prior = PRIOR_STRENGTH * faded / faded.sum()
        fade_N = self._memory ** (step - self.seen_N)
        return self.passes_N * fade_N + prior[0], self.fails_N * fade_N + prior[1]

    def variance(self, step: int) -> np.ndarray:
        """E[p (1 - p)], [N]."""
        a_N, b_N = self.posterior(step)
        total_N = a_N + b_N
        return a_N * b_N / (total_N * (total_N + 1))

    def signal_chance(self, step: int, group_size: int) -> np.ndarray:
        """The chance that a group of samples holds a pass and a fail, [N]: 1 - E[p^G] - E[(1 - p)^G]."""
        a_N, b_N = self.posterior(step)
        all_pass_N, all_fail_N = np.ones_like(a_N), np.ones_like(a_N)
        for i in range(group_size):
            all_pass_N *= (a_N + i) / (a_N + b_N + i)
            all_fail_N *= (b_N + i) / (a_N + b_N + i)
        return 1 - all_pass_N - all_fail_N

    def to_bytes(self, counters: list[float]) -> bytes:
        """Everything that changes, with the `counters` of who owns this."""
        file = io.BytesIO()
        np.savez(
            file,
            passes=self.passes_N,
            fails=self.fails_N,
            seen=self.seen_N,
            active=self.active_N,
            now=np.array([*self._now, self._now_step]),
            counters=np.array(counters, np.float64),
            pool=np.array(self._pool),
        )
        return file.getvalue()

    def from_bytes(self, data: bytes) -> list[float]:
        """Take over what `to_bytes` gave, and return the counters.

        Raises:
            ValueError: it is of other turns, or no such state.
        """
        kinds = {"passes": "float64", "fails": "float64", "seen": "int32", "active": "bool"}
        try:
            with np.load(io.BytesIO(data), allow_pickle=False) as file:
                found = {name: file[name] for name in (*kinds, "now", "counters", "pool")}
        except (KeyError, OSError, EOFError, ValueError, zipfile.BadZipFile) as error:
            raise ValueError(f"not a state of fresh pivots ({error!r:.100})") from None
        for name, kind in kinds.items():
            if found[name].shape != self.passes_N.shape or found[name].dtype != kind:
                raise ValueError(
                    f"it has {found[name].size} turns and the run's pool {len(self.passes_N)}: {_NOT_THE_POOL}"
                )
        if str(found["pool"]) != self._pool:
            raise ValueError(f"its turns are others than the run's pool has, or in another order: {_NOT_THE_POOL}")
        self.passes_N, self.fails_N, self.seen_N, self.active_N = (found[name] for name in kinds)
        self._now, self._now_step = found["now"][:2], int(found["now"][2])
        return found["counters"].tolist()
