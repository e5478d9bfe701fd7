"""What slurm/job.sh makes of each way in which an attempt ends, with a stand-in for training; and clean scripts."""

import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.slurm.fake import BIN, REPOSITORY, Job

SCRIPTS = sorted((REPOSITORY / "slurm").glob("*.sh"))


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run folder, in which `plan` says what each attempt does (bin/python_stand_in)."""
    folder = tmp_path / "run"
    folder.mkdir()
    return folder


def job(run: Path, plan: list[str], script: str = "train_30b_a3b.sh", **env: str) -> Job:
    (run / "plan").write_text("\n".join(plan) + "\n")
    stand_in = {"OUTPUT": str(run), "PYTHON": str(BIN / "python_stand_in")}
    return Job(run.parent / "slurm", script, env={**stand_in, **env})


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.name)
def test_scripts_parse_and_say_how_they_end(script: Path) -> None:
    subprocess.run(["bash", "-n", script], check=True)
    text = script.read_text()
    if "#SBATCH" in text:
        assert "set -euo pipefail" in text
    if script.name.startswith(("train", "select")):
        for line in ("--signal=B:USR1@300", "--requeue", "--open-mode=append"):
            assert f"#SBATCH {line}\n" in text


def test_shellcheck_finds_nothing() -> None:
    shellcheck = Path(sys.executable).with_name("shellcheck")
    done = subprocess.run([shellcheck, "-s", "bash", "-x", *SCRIPTS], cwd=REPOSITORY, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


def test_a_signal_leads_to_another_attempt_and_a_complete_run_to_none(run: Path) -> None:
    with job(run, ["wait", "finish"]) as running:
        running.wait_until(lambda: "rank 0 does wait" in running.output, 120)
        running.signal()
        assert running.wait(120) == 0
        assert (running.folder / "attempts").read_text() == "2"
    said = running.output
    assert "signal USR1: the ranks finish their step and save" in said
    assert "attempt 4242_0: stopped at step 1 of 9; requeued" in said
    assert "attempt 4242_1: complete" in said
    logs = run / "logs"
    assert (logs / "latest").readlink() == Path("4242_1")
    assert "rank 1 does wait" in (logs / "4242_0" / "node01_127.0.0.2_rank001.log").read_text()
    assert "rank 1 does wait" not in said, "rank 0 alone speaks in the job's log"


def test_a_rank_that_dies_ends_the_job_with_its_last_lines_on_top(run: Path) -> None:
    with job(run, ["die"]) as running:
        assert running.wait(120) != 0
        assert (running.folder / "attempts").read_text() == "1", "no requeue"
    log = (run / "logs" / "latest" / "job.log").read_text()
    first, *rest = log.splitlines()
    assert first.startswith("=== node01_127.0.0.2_rank001 ended first, with exit code 9. Its last lines")
    assert "the last thing that rank 1 saw" in rest
    assert "the last thing that rank 1 saw" in running.output
    assert "it is not requeued" in running.output


def test_requeues_without_progress_come_to_an_end(run: Path) -> None:
    with job(run, ["idle"], PIVOTRL_IDLE_REQUEUES="1") as running:
        assert running.wait(200) == 1
        assert (running.folder / "attempts").read_text() == "3", "one that came to step 1, and two that stayed there"
    assert "attempt 4242_2: 2 attempts in a row ended at step 1; not requeued" in running.output


def test_the_ranks_are_told_when_the_job_ends(run: Path) -> None:
    folder = run.parent / "slurm"
    folder.mkdir()
    (folder / "end").write_text("2099-01-01T00:00:00\n")
    with job(run, ["finish"]) as running:
        assert running.wait(120) == 0
    end = int(time.mktime((2099, 1, 1, 0, 0, 0, 0, 0, -1)))
    assert f"rank 0 does finish before {end}\n" in running.output
    (folder / "end").write_text("NONE\n")  # no time limit
    with job(run, ["finish"]) as running:
        assert running.wait(120) == 0
    assert "rank 0 does finish before no end\n" in running.output


def test_all_attempts_are_in_one_container_where_an_image_is_named(run: Path) -> None:
    with job(run, ["finish"], CONTAINER_IMAGE="image.sqsh", CONTAINER_MOUNTS="/disk:/disk") as running:
        assert running.wait(120) == 0
    options = (running.folder / "srun_options").read_text().splitlines()
    assert len(options) == 2, "the preflight and the training"
    for line in options:
        assert "--container-image=image.sqsh" in line and "--container-mounts=/disk:/disk" in line


def test_a_selection_is_requeued_by_its_own_state(run: Path) -> None:
    with job(run, ["wait", "finish"], "select_pivots_30b_a3b.sh") as running:
        running.wait_until(lambda: "rank 0 does wait" in running.output, 120)
        running.signal()
        assert running.wait(120) == 0
    assert "attempt 4242_1: complete" in running.output
    assert (run / "pivots" / "logs" / "latest").readlink() == Path("4242_1")


def test_the_newest_checkpoint_is_converted_and_compared(run: Path) -> None:
    checkpoint = run / "checkpoints" / "step_000120"
    checkpoint.mkdir(parents=True)
    (run / "checkpoints" / "latest").write_text(checkpoint.name)
    with job(run, [], "convert_30b_a3b.sh") as running:
        assert running.wait(120) == 0, running.output
    said = running.output
    assert f"convert_hf to-hf --checkpoint {checkpoint} --out {run}/hf\n" in said
    assert f"convert_hf verify --hf {run}/hf --checkpoint {checkpoint}\n" in said
