"""Logits, gradients, the gradient norm and exported weights of every layout, against transformers."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.launch import REPOSITORY, launch

WORKER = Path(__file__).with_name("layouts_worker.py")
FOUR_RANKS = [
    ("moe", {"tensor": 2, "pipeline": 2, "expert": 2}),
    ("moe", {"tensor": 2, "expert": 2, "expert_tensor": 2}),
    ("moe", {"tensor": 2, "expert": 2}),
    ("moe", {"tensor": 2}),
    ("moe", {"tensor": 2, "expert": 4}),
    ("moe", {"expert": 2}),
    ("moe", {"pipeline": 2}),
    ("moe_raw_probs", {"tensor": 2, "pipeline": 2, "expert": 2}),
    ("dense", {"tensor": 2, "pipeline": 2}),
    ("llama_tied", {"tensor": 2, "pipeline": 2}),
    ("llama_tied", {"pipeline": 2}),
    ("llama_tied", {"tensor": 2, "sequence": False}),
    ("llama_bias", {"tensor": 2}),
    ("qwen2", {"tensor": 2, "pipeline": 2}),
    ("odd_mixtral", {"tensor": 2, "pipeline": 2, "expert": 2}),
]
"""The ranks that a layout leaves over are data-parallel."""


def results(output: str) -> list[dict]:
    return [json.loads(line.removeprefix("RESULT ")) for line in output.splitlines() if line.startswith("RESULT ")]


def check(result: dict) -> None:
    assert result["logits"] < 1e-5
    assert result["packed_logits"] < 1e-5
    assert result["grads"] < 1e-6
    assert result["packed_grads"] < 1e-6
    assert result["grad_norm"] < 1e-6
    assert result["export"] == []
    assert result["reloaded"] == []


@pytest.fixture(scope="module")
def streamed(tiny: Path) -> None:
    """Checkpoints that `convert_hf` wrote, for every layout to load; those of other models the first layout writes."""
    steps = [
        ["none", ["to-megatron", "--hf", str(tiny / kind), "--out", str(tiny / kind / "checkpoint")]]
        for kind in ("moe", "odd_mixtral", "qwen2")
    ]
    command = [sys.executable, "-m", "tests.policy.commands_worker", json.dumps(steps)]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, timeout=400)
    assert done.returncode == 0 and done.stdout.count('RESULT [0, ""]') == len(steps), done.stdout + done.stderr[-4000:]


@pytest.fixture(scope="module")
def one_rank(tiny: Path, streamed: None) -> list[dict]:
    """Without torchrun: the process makes a group of one."""
    kinds = ["moe", "moe_raw_probs", "dense", "llama_tied", "llama_bias", "moe_bf16", "qwen2", "odd_mixtral"]
    jobs = [[str(tiny / kind), {}] for kind in kinds] + [
        [str(tiny / kind), {"recompute": how}]
        for kind, how in [("moe", "full"), ("moe", "selective"), ("dense", "selective")]
    ]
    command = [sys.executable, "-m", "tests.policy.layouts_worker", json.dumps(jobs)]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, timeout=400)
    assert done.returncode == 0, done.stderr[-4000:]
    return results(done.stdout)


@pytest.mark.parametrize("job", range(11))
def test_one_rank_equals_transformers(one_rank: list[dict], job: int) -> None:
    check(one_rank[job])


@pytest.fixture(scope="module")
def four_ranks(tiny: Path, streamed: None) -> list[dict]:
    jobs = [[str(tiny / kind), layout] for kind, layout in FOUR_RANKS]
    return results(launch(4, WORKER, json.dumps(jobs), timeout=500))


@pytest.mark.slow
@pytest.mark.parametrize("job", range(len(FOUR_RANKS)), ids=lambda job: f"{FOUR_RANKS[job]}")
def test_layout_equals_transformers(four_ranks: list[dict], job: int) -> None:
    check(four_ranks[job])
