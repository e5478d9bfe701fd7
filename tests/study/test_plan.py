"""What is to be done follows from what is done, whatever was killed where."""

import pytest

from pivotrl.study.plan import ARMS, QUICK, SELECTIONS, Job, Sizes, count, jobs, needs
from pivotrl.study.results import Claim, Results
from pivotrl.study.settings import configure
from tests.study.fakes import CURVES, SIZES, write_all, write_run, write_selections


def test_every_arm_gets_the_same_sweep():
    for sizes in (Sizes(), QUICK):
        assert {len(steps) for steps in sizes.points.values()} == {len(sizes.points["pivots"])}
        assert {arm.kind for arm in ARMS} == set(sizes.points)
    assert {arm.turns for arm in ARMS if arm.turns} == set(SELECTIONS)


def test_an_arms_seeds_wait_for_its_sweep(tmp_path):
    results = Results(tmp_path, SIZES)
    first = results.open_jobs()
    assert {job.stage for job in first} == {"select", "train", "base"}
    assert {job.name for job in first if job.stage == "train"} == {"sft", "end_to_end", "end_to_end_half"}
    assert all(job.seed == 1 for job in first if job.stage == "train")
    write_selections(results)
    assert {job.name for job in results.open_jobs() if job.stage == "train"} == set(SIZES.arms)
    low, high = Job("train", "sft", 1, 1e-4), Job("train", "sft", 1, 1e-3)
    write_run(results, low, [(0.3, 0.9), (0.2, 0.9)], tested=False)
    assert "sft" not in results.best_rates()
    write_run(results, high, [(0.1, 0.9), (0.3, 0.9)], tested=False)
    assert results.best_rates() == {"sft": 1e-4}, "the smaller one of equals"
    later = [job for job in results.open_jobs() if job.name == "sft"]
    assert set(later) == {Job("test", "sft", 1, 1e-4), Job("train", "sft", 2, 1e-4), Job("train", "sft", 3, 1e-4)}


def test_half_a_run_is_open_and_a_stopped_one_is_done(tmp_path):
    results = Results(tmp_path, SIZES)
    job = Job("train", "sft", 1, 1e-3)
    write_run(results, job, [(0.3, 0.9), (0.2, 0.9)], tested=False)
    whole = results.read(job)
    results.write(job, {"points": whole["points"][:1]})
    assert not results.done(job) and job in results.open_jobs()
    results.write(job, {"points": whole["points"][:1], "stopped": "step 60: not finite"})
    assert results.done(job)


def test_the_whole_study_ends(tmp_path):
    results = Results(tmp_path, SIZES)
    write_all(results, CURVES)
    assert results.open_jobs() == [] and results.finished() == count(SIZES)


def test_names_and_folders_are_one_to_one():
    sizes = Sizes()
    known = list(dict.fromkeys(jobs(sizes, {arm.name: sizes.rates[1] for arm in ARMS})))
    assert len(known) == count(sizes) == len({(job.folder, job.stage) for job in known})
    assert len({str(job) for job in known}) == len(known)
    for job in known:
        assert all(need in known for need in needs(job))


def test_a_claim_is_one_workers(tmp_path):
    train, test = Job("train", "sft", 1, 1e-3), Job("test", "sft", 1, 1e-3)
    with Claim(tmp_path, train) as mine:
        assert mine.taken
        assert not Claim(tmp_path, test).taken, "the test of a run reads the folder that its training writes"
        assert Claim(tmp_path, Job("train", "sft", 2, 1e-3)).taken
    assert Claim(tmp_path, test).taken


def test_configurations_differ_where_they_should(tmp_path):
    def of(job):
        return configure(job, SIZES, tmp_path, tmp_path / "base", 20)

    runs = {arm.name: of(Job("train", arm.name, 2, 1e-3)) for arm in ARMS}
    assert {run.seed for run in runs.values()} == {2} and {run.optimizer.lr for run in runs.values()} == {1e-3}
    assert len({run.output for run in runs.values()}) == len(ARMS)
    assert {name for name, run in runs.items() if run.verifier.name == "exact"} == {"strict"}
    assert runs["end_to_end"].environment.stream == "expert"
    assert runs["sft"].sft.trajectories_per_step == SIZES.trajectories_per_step
    assert runs["pivotrl"].training.steps == 20
    assert of(Job("select", "strict", 1)).verifier.name == "exact"
    assert of(Job("select", "random", 1)).pivots.keep == "all"
    assert of(Job("select", "functional", 1)).pivots.keep == "pivots"
    assert {name for name, run in runs.items() if run.objective.beta} == {"kl"}
    sizes = {name: run.training.pivots_per_step for name, run in runs.items()}
    assert sizes["thrifty"] == sizes["pivotrl"] // 2 and sizes["end_to_end_half"] == sizes["end_to_end"] // 2
    assert of(Job("select", "thrifty", 1)).pivots.profiling == "thrifty"


@pytest.mark.parametrize("stage", ["train", "test"])
def test_a_run_and_its_test_share_a_folder(stage):
    assert Job(stage, "sft", 1, 5e-4).folder == "runs/sft-seed1-lr0.0005"
