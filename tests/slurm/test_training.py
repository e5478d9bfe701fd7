"""slurm/train_30b_a3b.sh with the real training, on two nodes of one rank: pre-empted three times, it ends as if never;
and a node that is not fit, which the preflight names."""

import json
import shutil
from pathlib import Path

import pytest

from tests.launch import launch
from tests.slurm.fake import REPOSITORY, Job
from tests.test_train import rows

pytestmark = pytest.mark.slow

STEPS, PREEMPTIONS = 14, 3
SETTINGS = [
    "trajectories.heldout_share=0",
    f"training.steps={STEPS}",
    "training.pivots_per_step=4",
    "training.group_size=4",
    "pivots.samples=4",
    "checkpoint.every=100",
    "checkpoint.background=true",
    "telemetry.tensorboard=false",
]


def settings(files: Path) -> list[str]:
    return [f"trajectories.files=[{files}]", *SETTINGS]


@pytest.fixture(scope="module")
def straight(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The trajectories, and the folder of a run that nothing disturbed."""
    from pivotrl.demo.trajectories import write

    folder = tmp_path_factory.mktemp("straight")
    files = folder / "trajectories.jsonl"
    write(files, 6, "train")
    launch(2, REPOSITORY / "tests" / "train_ranks.py", str(folder / "run"), *settings(files), timeout=400)
    return files, folder / "run"


def test_the_undisturbed_run_is_complete(straight: tuple[Path, Path]) -> None:
    assert json.loads((straight[1] / "state.json").read_text()) == {
        "finished": True,
        "step": STEPS,
        "steps": STEPS,
        "stopped": "",
    }


def test_preempted_three_times_it_ends_with_the_same_metrics(straight: tuple[Path, Path], tmp_path: Path) -> None:
    files, run = straight[0], tmp_path / "run"
    shutil.copytree(straight[1] / "pivots", run / "pivots")
    metrics = run / "metrics.jsonl"
    env = {"OUTPUT": str(run), "CONFIG": "configs/demo_cpu.yaml", "PREFLIGHT": "0"}
    with Job(tmp_path / "slurm", "train_30b_a3b.sh", *settings(files), env=env) as job:

        def lines() -> int:
            return metrics.read_bytes().count(b"\n") if metrics.exists() else 0

        seen = 0
        for attempt in range(PREEMPTIONS):
            job.wait_until(lambda seen=seen: lines() > seen, 300)
            job.signal()
            job.wait_until(lambda attempt=attempt: f"attempt 4242_{attempt + 1} on" in job.output, 120)
            seen = lines()
            assert seen < STEPS
            latest = (run / "checkpoints" / "latest").read_text()
            assert latest == f"step_{seen:06d}", "what was finished is saved, and nothing else"
        assert job.wait(300) == 0, job.output[-4000:]
        assert (job.folder / "attempts").read_text() == str(PREEMPTIONS + 1)
    assert rows(run) == rows(straight[1])
    assert json.loads((run / "state.json").read_text())["finished"] is True
    said = job.output
    assert said.count("stopped by a stop file after") == PREEMPTIONS
    assert said.count("; requeued") == PREEMPTIONS
    assert "attempt 4242_3: complete" in said
    assert (run / "logs" / "latest").readlink() == Path("4242_3")


def test_the_preflight_names_a_node_that_is_not_fit(tmp_path: Path) -> None:
    run = tmp_path / "run"
    bad = "TMPDIR=/no/scratch GIT_DIR=/no/repository"
    env = {"OUTPUT": str(run), "CONFIG": "configs/demo_cpu.yaml", "FAKE_NODE_ENV_1": bad}
    with Job(tmp_path / "slurm", "train_30b_a3b.sh", env=env) as job:
        assert job.wait(300) != 0
    top = (run / "logs" / "latest" / "job.log").read_text()
    assert top.startswith("=== node00_127.0.0.1_rank000 ended first, with exit code 2.")
    assert "faults; no step was run" in job.output
    assert "127.0.0.2: git unknown, but" in job.output
    assert "127.0.0.2: temporary folder /no/scratch: No such file or directory" in job.output
    assert "preflight: 127.0.0.1  0 GPUs  to 127.0.0.2 " in job.output, "its bandwidth was measured"
    assert not (run / "metrics.jsonl").exists() and "pivotrl.train" not in job.output
