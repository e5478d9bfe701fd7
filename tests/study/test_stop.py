"""A training that was asked to stop returns early: the worker must not take it for the whole stretch."""

import pytest

from pivotrl.study import work
from pivotrl.study.plan import Job
from pivotrl.study.results import Results
from tests.study.fakes import SIZES, measured

JOB = Job("train", "sft", 1, 1e-3)


def test_a_stretch_that_was_stopped_is_no_point(tmp_path, monkeypatch):
    results = Results(tmp_path, SIZES)
    trained = []

    def train(session):
        """Stands in for minutes of training: the second stretch is stopped once."""
        trained.append(session.training.steps)
        if trained != [30, 60]:
            (tmp_path / JOB.folder / "checkpoints" / f"step_{session.training.steps:06d}").mkdir(parents=True)

    monkeypatch.setattr(work, "trainer_of", lambda job: train)
    monkeypatch.setattr(work, "read_metrics", lambda path, step: {"rollout_turns": 0})
    monkeypatch.setattr(work, "_with", lambda session, config: config)
    monkeypatch.setattr(work.Worker, "_start", lambda worker, config: config)
    monkeypatch.setattr(work.Worker, "_validate", lambda worker, session, job: measured(0.5, 0.9))
    with pytest.raises(SystemExit, match="asked to stop before step 60"):
        work.Worker(results, tmp_path).do(JOB)
    assert [point["step"] for point in results.read(JOB)["points"]] == [30] and not results.done(JOB)
    work.Worker(results, tmp_path).do(JOB)
    assert trained == [30, 60, 60] and results.done(JOB)
