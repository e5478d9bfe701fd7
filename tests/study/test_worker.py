"""The workers' loop with jobs that cost nothing: killed at any job and started again, the study ends."""

import argparse
import random
from typing import ClassVar

import pytest

from pivotrl.study import work, worker
from pivotrl.study.claims import claims
from pivotrl.study.findings import find
from pivotrl.study.plan import QUICK, Job, count
from pivotrl.study.results import Results
from pivotrl.study.run import progress
from tests.study.fakes import measured


class Killed(Exception):
    """In the place of a signal."""


class FakeWorker:
    """Writes results point by point, and is killed now and then."""

    done: ClassVar[list[Job]] = []
    rng = random.Random(0)
    danger = 0.0

    def __init__(self, results, base):
        self.results = results

    def do(self, job):
        FakeWorker.done.append(job)
        result = self.results.read(job)
        if job.stage == "select":
            summary = {"candidates": 10, "pivots": 7, "mixed": 8, "cost": {"samples": 80}}
            self._write(job, {"points": [{"step": 0, "summary": summary, "seconds": 1.0, "processor_seconds": 1.0}]})
            return
        if job.stage == "base":
            self._write(job, {"points": [{"step": 0, "validation": measured(0.1, 0.9)} | measured(0.1, 0.9)]})
            return
        for step in self.results.steps(job)[len(result["points"]) :]:
            told = {"rollout_turns": step, "processor_seconds": 1.0} if job.stage == "train" else {}
            result["points"].append({"step": step} | told | measured(0.1 + step / 100, 0.9))
            self._write(job, result)

    def _write(self, job, result):
        if self.rng.random() < self.danger:
            raise Killed
        self.results.write(job, result)


@pytest.fixture
def quick(monkeypatch, tmp_path):
    monkeypatch.setattr(work, "Worker", FakeWorker)
    monkeypatch.setattr(FakeWorker, "done", [])
    return argparse.Namespace(out=tmp_path, base=tmp_path, quick=True, settled=False)


def test_one_worker_does_every_job_once(quick):
    worker.work(quick)
    results = Results(quick.out, QUICK)
    assert len(FakeWorker.done) == len(set(FakeWorker.done)) == count(QUICK) == results.finished()
    assert len(claims(find(results))) == 9


def test_killed_again_and_again_it_ends_with_the_same(quick, monkeypatch):
    monkeypatch.setattr(FakeWorker, "danger", 0.3)
    kills = 0
    while Results(quick.out, QUICK).open_jobs():
        try:
            worker.work(quick)
        except Killed:
            kills += 1
    assert kills > 10
    again = {job: Results(quick.out, QUICK).read(job) for job in set(FakeWorker.done)}
    for job in again:
        Results(quick.out, QUICK).path(job).unlink()
    monkeypatch.setattr(FakeWorker, "danger", 0.0)
    worker.work(quick)
    assert {job: Results(quick.out, QUICK).read(job) for job in again} == again


def test_progress_says_how_long():
    assert progress(2, 10, 2, 60.0) == "2 of 10 jobs, 1 min"
    assert progress(6, 10, 2, 600.0) == "6 of 10 jobs, 10 min, about 10 min left"
