"""What a training does when something fails under it: real processes, one fault in each life of one run (lives.py).

docs/cluster.md says the same to users, row by row. Other faults have tests beside what they befall: kills at random
moments (tests/policy/test_kills.py), damaged checkpoints (tests/policy/damage_ranks.py), bytes flipped in every layout
(tests/rollout/test_transport.py), weights in a wrong layout (tests/rollout/engine_ranks.py), unruly verdicts
(tests/verifiers/test_pool.py), gates that stop (tests/test_train.py), jobs at their end (tests/slurm).
"""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.launch import REPOSITORY, kill, start

pytestmark = pytest.mark.slow

KEPT = "What was saved is kept: start again"
FULL = "(No space left on device|File too large); free space there and start again: what was saved is kept"


def killed(rank: int, phase: str) -> tuple[int, str]:
    noticed = rf"rank {1 - rank} noticed in the {phase} of step \d+ \(.*\)"
    return 137, rf"rank {rank} was ended by SIGKILL, .*; {noticed}\. {KEPT}"


SAID = {
    "missing tensor": (
        1,
        r"pivotrl\.train: refit: model\.layers\.1\.self_attn\.o_proj\.weight should lie in decoder\.layers\.1\."
        r"self_attention\.linear_proj\.weight, which this rank's policy does not have \(rank 1\)",
    ),
    "flipped byte": (
        1,
        r"pivotrl\.train: refit: model\.\S+\[.*\] changed between rank 1, where its checksum is -?\d+, and rank 0's "
        r"engine, where it is -?\d+; training stopped",
    ),
    "killed in refit": killed(1, "refit"),
    "killed in generation": killed(1, "rollout"),
    "killed in save": killed(1, "save"),
    "killed at the end of save": killed(0, "save"),
    "engine dies": (
        1,
        r"pivotrl\.train: the engine of rank 1 failed while it sampled: RuntimeError: the kernel of layer 1 failed "
        r"\(tests/faults/faults\.py:\d+\); finished groups are in the bank: start again, .* \(rank 1\)",
    ),
    "full disk at bank": (2, rf"pivotrl\.train: \S+/bank/step_\d+/rank_00000\.jsonl: {FULL}"),
    "full disk at metrics": (2, rf"pivotrl\.train: \S+/metrics\.jsonl: {FULL}"),
    "full disk at save": (
        2,
        rf"pivotrl\.train: \S+/step_\d+\.partial/\S+: {FULL}; checkpoint step_\d+ was not written, step_\d+ is still "
        r"there to continue from",
    ),
}
"""For each fault the exit code and the one line."""


@pytest.fixture(scope="module")
def lives(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict]:
    done = subprocess.run(
        [sys.executable, "-m", "tests.faults.lives", str(tmp_path_factory.mktemp("faults"))],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        timeout=1500,
    )
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-6000:]
    return {life["name"]: life for life in map(json.loads, done.stdout.splitlines())}


@pytest.mark.parametrize("fault", SAID)
def test_one_line_says_what_failed(lives: dict[str, dict], fault: str) -> None:
    code, words = SAID[fault]
    life = lives[fault]
    told = [line for line in life["said"].splitlines() if not line.startswith(("step ", "device:", "engine:"))]
    told = [line for line in told if not re.match(r"(layout|precision|memory|optimizer|gradient acc\S*|kernels)", line)]
    assert len(told) == 1 and re.fullmatch(words, told[0]), life["said"]
    assert life["code"] == code


@pytest.mark.parametrize("fault", SAID)
def test_what_was_done_is_kept(lives: dict[str, dict], fault: str) -> None:
    """The checkpoint before the fault (its checksums are compared in lives.py), and what the rank had sampled."""
    life, step = lives[fault], lives[fault]["fault_step"]
    saved = step + 1 if fault == "full disk at metrics" else step
    assert life["step"] == saved
    assert life["rows"] == lives["straight"]["rows"][: len(life["rows"])] and len(life["rows"]) >= step
    if fault in ("killed in generation", "engine dies"):
        assert life["banked"][f"step_{step:06d}"] >= 1


def test_the_run_ends_as_one_that_nothing_befell(lives: dict[str, dict]) -> None:
    assert lives["the end"]["code"] == lives["straight"]["code"] == 0
    assert lives["the end"]["rows"] == lives["straight"]["rows"]
    assert [row["step"] for row in lives["the end"]["rows"]] == list(range(len(SAID) + 2))
    assert not lives["the end"]["banked"], "a checkpoint holds every step"


def test_a_verifier_that_hangs_costs_its_own_verdict(lives: dict[str, dict]) -> None:
    life = lives["hanging verifier"]
    assert life["code"] == 0, life["said"]
    (row,) = life["rows"][len(SAID) + 2 :]
    assert row["reason.time_limit"] == 1 / 16 and row["reward.time_limit"] == 0


def test_a_rank_that_is_stuck_is_given_up_after_the_time_out(lives: dict[str, dict]) -> None:
    life = lives["stuck"]
    assert life["code"] == 1 and life["said"].count("\n") == 1, life["said"]
    assert re.match(rf"rank 0 waited in vain for another in the refit of step 5 \(.*12000ms.*\)\. {KEPT}", life["said"])


def test_under_torchrun_the_ranks_that_are_left_say_which_one_is_lost() -> None:
    process = start(2, Path(__file__).with_name("lost_ranks.py"), stdout=subprocess.PIPE)
    try:
        said, _ = process.communicate(timeout=240)
    finally:
        if process.poll() is None:
            kill(process)
    own = [line for line in said.splitlines() if line.startswith("pivotrl.train: ")]
    assert len(own) == 1 and "[rank0]: Traceback" not in said, said
    assert re.match(r"pivotrl\.train: rank 0 lost rank 1 in the refit of step 5 \(.*\); ", own[0])
    assert "exitcode  : -9" in said and process.returncode == 1, said
