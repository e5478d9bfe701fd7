"""The study's results on disk: one JSON file a job, whole or not there; what follows from them for the plan.

`STUDY/<job.folder>/<stage>.json` = {"points": [{"step", ...}], ...}. A point of step 0 is the base's.
"""

import fcntl
import json
import os
from pathlib import Path
from typing import Any, Self

from pivotrl.study.plan import ARM, Job, Sizes, jobs, needs, sweep
from pivotrl.trajectories.store import write_json

Point = dict[str, Any]


class Results:
    """The results in one study's folder."""

    def __init__(self, folder: Path, sizes: Sizes):
        self.folder, self.sizes = folder, sizes

    def path(self, job: Job) -> Path:
        return self.folder / job.folder / f"{job.stage}.json"

    def read(self, job: Job) -> dict[str, Any]:
        """What a job has written so far; {"points": []} before its first."""
        path = self.path(job)
        return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {"points": []}

    def write(self, job: Job, result: dict[str, Any]) -> None:
        """Replace a job's result."""
        self.path(job).parent.mkdir(parents=True, exist_ok=True)
        write_json(self.path(job), result)

    def steps(self, job: Job) -> tuple[int, ...]:
        """The steps that a job measures."""
        return self.sizes.points[ARM[job.name].kind] if job.stage in ("train", "test") else (0,)

    def done(self, job: Job) -> bool:
        """Whether all its points are there, or the run ended by itself."""
        result = self.read(job)
        found = [point["step"] for point in result["points"]]
        return "stopped" in result or found == list(self._due(job))

    def _due(self, job: Job) -> tuple[int, ...]:
        if job.stage == "test":  # of a run that stopped early, what there is
            return tuple(point["step"] for point in self.read(Job("train", job.name, job.seed, job.rate))["points"])
        return self.steps(job)

    def best_rates(self) -> dict[str, float]:
        """Of every arm whose sweep is done: the rate with the highest validation success at any of its points, the
        smaller one of equals."""
        found = {}
        for arm in (ARM[name] for name in self.sizes.arms):
            runs = sweep(arm, self.sizes)
            if all(self.done(run) for run in runs):
                found[arm.name] = max(runs, key=lambda run: (self.best_success(run), -run.rate)).rate
        return found

    def best_success(self, run: Job) -> float:
        """Highest validation success of a run; -1 where it has no point."""
        return max((share(point["success"]) for point in self.read(run)["points"]), default=-1.0)

    def open_jobs(self) -> list[Job]:
        """Jobs that are known, not done and can start, in the order in which to start them."""
        known = list(dict.fromkeys(jobs(self.sizes, self.best_rates())))
        return [job for job in known if not self.done(job) and all(self.done(need) for need in needs(job))]

    def finished(self) -> int:
        """How many of the whole study's jobs are done."""
        known = dict.fromkeys(jobs(self.sizes, self.best_rates()))
        return sum(all(map(self.done, [job, *needs(job)])) for job in known)


def share(bits: str) -> float:
    """Share of ones in a string of 0 and 1, one a task or question."""
    return bits.count("1") / len(bits)


class Claim:
    """The right to work on a job's folder, given up when the process ends, however it does."""

    def __init__(self, folder: Path, job: Job):
        path = folder / job.folder
        path.mkdir(parents=True, exist_ok=True)
        self._file = os.open(path / "claim", os.O_CREAT | os.O_RDWR)
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self.taken = True
        except BlockingIOError:
            self.taken = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._file)
