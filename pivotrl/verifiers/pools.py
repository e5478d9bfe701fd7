"""The pools of the verifiers that a run and its rows name, each made when it is first asked for."""

from collections.abc import Callable, Sequence
from typing import Any

from pivotrl.verifiers.attempt import Attempt
from pivotrl.verifiers.base import Verdict, Verifier, VerifierConfig
from pivotrl.verifiers.pool import VerdictPool

Key = tuple[str, str | None]
"""A verifier's name and preset; the parameters follow from them (`registry.row_config`)."""
RowJob = tuple[VerifierConfig, Attempt, dict[str, Any] | None]
"""Who judges, what, and the row's overrides of the parameters."""


class VerdictPools:
    """A `VerdictPool` of `config.workers` processes for each verifier, whose workers start with its first jobs."""

    def __init__(self, run: VerifierConfig, counted: Callable[[int], object] | None = None):
        """`counted` hears of verdicts as they come. Raises ValueError where the section names no verifier, or
        parameters that it does not know."""
        self._counted = counted
        self._ask: Callable[..., Any] | None = None
        self._pools: dict[Key, VerdictPool] = {}
        self.verifier(run)

    def verifier(self, config: VerifierConfig) -> Verifier:
        """The verifier of a section, in this process. Raises ValueError as the constructor does."""
        return self._pool(config).verifier

    def verifiers(self) -> dict[Key, Verifier]:
        """All that were asked for."""
        return {key: pool.verifier for key, pool in self._pools.items()}

    def attach(self, ask: Callable[..., Any]) -> None:
        """Give `ask` to each verifier that has `attach`: the judge, whose endpoint may be the run's own engine."""
        self._ask = ask
        for verifier in self.verifiers().values():
            self._hand_over(verifier)

    def judge(self, jobs: Sequence[RowJob]) -> list[Verdict]:
        """One verdict a job, in order; the jobs of one verifier are judged together."""
        places: dict[Key, list[int]] = {}
        for place, (config, *_) in enumerate(jobs):
            places.setdefault((config.name, config.preset), []).append(place)
        found: dict[int, Verdict] = {}
        for mine in places.values():
            verdicts = self._pool(jobs[mine[0]][0]).judge([jobs[place][1:] for place in mine])
            found.update(zip(mine, verdicts, strict=True))
        return [found[place] for place in range(len(jobs))]

    def close(self) -> None:
        """End the worker processes and close the verifiers that can be. Happens by itself when Python ends."""
        for pool in self._pools.values():
            pool.close()
        self._pools.clear()

    def _pool(self, config: VerifierConfig) -> VerdictPool:
        key = (config.name, config.preset)
        if key not in self._pools:
            self._pools[key] = VerdictPool(config, config.workers, config.seconds, self._counted)
            self._hand_over(self._pools[key].verifier)
        return self._pools[key]

    def _hand_over(self, verifier: Verifier) -> None:
        if self._ask is not None and hasattr(verifier, "attach"):
            verifier.attach(self._ask)
