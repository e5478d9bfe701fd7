"""On a GPU: the optimizer goes to the host and comes back, whichever it is, and fused gradients are the plain ones."""

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from tests.launch import REPOSITORY
from tests.policy.tiny import build

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU")]


@pytest.mark.parametrize("optimizer", [{}, {"distributed": False}, {"precision_aware": True}, {"offload": 0.5}])
def test_optimizer_and_gradients(tmp_path: Path, optimizer: dict) -> None:
    if {"precision_aware", "offload"} & set(optimizer) and not importlib.util.find_spec("transformer_engine"):
        pytest.skip("needs Transformer Engine")
    build("moe").save_pretrained(tmp_path)
    command = [sys.executable, "-m", "tests.policy.memory_gpu_worker", str(tmp_path), json.dumps(optimizer)]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-4000:]
    assert "GPU MEMORY HOLDS" in done.stdout
