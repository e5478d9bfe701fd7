"""A refit into an engine whose ranks hold whole experts is, bit for bit, what vLLM loads from Hugging Face files.

Such an engine is refused on a CPU, where it could not sample; the benchmark builds one, to load and to compare.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.launch import REPOSITORY


@pytest.mark.slow
def test_whole_experts_arrive_as_vllm_loads_them(tmp_path: Path) -> None:
    command = [sys.executable, "tools/bench_refit.py", "--parts", "ep2", "--layers", "1", "--rounds", "1"]
    done = subprocess.run(
        [*command, "--work", str(tmp_path)],
        cwd=REPOSITORY,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=400,
    )
    equal = r"^met: ep2: \d+ tensors of each rank are, bit for bit, what vLLM loads"
    assert re.search(equal, done.stdout, re.MULTILINE), done.stdout + done.stderr[-4000:]
    assert re.search(r"^met: ep2: extra memory \d+ MiB of the two buffers", done.stdout, re.MULTILINE), done.stdout
    assert done.stdout.count("ep2: ") == 4, "a line of the table and three verdicts"
