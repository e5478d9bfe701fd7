"""The benchmark command, which is also the one test of an engine in a plain process and of a refit from Megatron."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.launch import REPOSITORY, launch
from tests.rollout.tiny import save_moe

TOOL = REPOSITORY / "tools/bench_rollout.py"
SMALL = ("--prompts", "4", "--samples", "4", "--prompt-tokens", "60", "--tokens", "12", "--repeats", "1")
CONFIG = """
output: {folder}/run
model: {{path: {folder}, dtype: float32}}
parallel: {{tensor: 2, expert: 2}}
rollout: {{max_model_len: 128, max_new_tokens: 32, kv_cache_gib: 0.25}}
trajectories: {{files: [none.jsonl]}}
"""


def bench(*arguments: str) -> subprocess.CompletedProcess:
    environment = {key: value for key, value in os.environ.items() if key not in ("RANK", "WORLD_SIZE", "LOCAL_RANK")}
    return subprocess.run(
        [sys.executable, str(TOOL), *arguments],
        env=environment | {"OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=200,
    )


@pytest.mark.slow
def test_a_plain_process(tmp_path: Path) -> None:
    save_moe(tmp_path)
    done = bench("--model", str(tmp_path), *SMALL)
    assert done.returncode == 0, done.stderr
    assert "1 engine(s) of 1 rank(s); 4 prompts" in done.stdout
    rates = re.findall(
        r"^(?:pivotrl|LLM).*?([\d,]+) +[\d,]+-[\d,]+ +[\d.]+ +[\d.]+ +[\d.]+$", done.stdout, re.MULTILINE
    )
    assert "engine: max_num_seqs 16, " in done.stdout
    assert len(rates) == 4 and all(float(rate.replace(",", "")) > 0 for rate in rates), done.stdout


@pytest.mark.slow
def test_two_ranks_refit_from_megatron(tmp_path: Path) -> None:
    """TP=2 EP=2 in the trainer, an engine in each rank; every refit proves itself or raises."""
    save_moe(tmp_path)
    config = tmp_path / "run.yaml"
    config.write_text(CONFIG.format(folder=tmp_path))
    output = launch(2, TOOL, "--config", str(config), *SMALL, timeout=200)
    assert "2 engine(s) of 1 rank(s)" in output
    (gap,) = re.findall(r"refit \+ proof: .* 47 tensors, 4\.6 MB; largest canary gap ([\d.e+-]+)", output)
    assert float(gap) < 1e-4


def test_a_missing_model_is_one_line(tmp_path: Path) -> None:
    done = bench("--model", str(tmp_path / "nowhere"))
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.count("\n") == 1 and "--model: no config.json in" in done.stderr
