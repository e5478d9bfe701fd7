"""The Triton kernels without a GPU: against their definition by Triton's interpreter, and what the compiler makes of
them."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

INTERPRETED = Path(__file__).with_name("kernels_interpreted.py")


@pytest.mark.parametrize("part", ["fp32", "bf16", "mutants"])
def test_interpreted_kernels_agree_with_their_definition(part):
    environment = os.environ | {"TRITON_INTERPRET": "1", "OMP_NUM_THREADS": "1"}
    repository = INTERPRETED.parents[2]
    command = [sys.executable, "-m", "tests.objective.kernels_interpreted", part]
    result = subprocess.run(command, cwd=repository, env=environment, capture_output=True, text=True, timeout=300)
    assert result.returncode == 0, result.stdout + result.stderr
    assert f"{part}: all agree" in result.stdout


@pytest.mark.parametrize("architecture", [80, 90, 100])
@pytest.mark.parametrize("dtype", ["bf16", "fp32"])
def test_nothing_spills_and_the_logits_move_once_in_16_byte_accesses(architecture, dtype):
    compiled = pytest.importorskip("pivotrl.objective.kernels.compiled")
    stats = compiled.compile_kernel(compiled.stats_kernel, architecture, dtype)
    d_logits = compiled.compile_kernel(compiled.dlogits_kernel, architecture, dtype)
    assert (stats.spilled, d_logits.spilled) == (0, 0)
    assert (stats.reads, stats.writes) == (1, 0)
    assert (d_logits.reads, d_logits.writes) == (1, 1)
