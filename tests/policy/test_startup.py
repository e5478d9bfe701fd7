"""What cannot run is refused with the key and the remedy, and what runs says what it is."""

import dataclasses
import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from pivotrl.config import RunConfig, parse_config
from pivotrl.policy import device, startup
from pivotrl.policy.architecture import Architecture
from tests.launch import REPOSITORY


def config(**sections: dict) -> RunConfig:
    model = {"path": "m", **sections.pop("model", {})}
    return parse_config({"output": "x", "model": model, **sections}, "test")


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch):
    """Pretend a GPU with Transformer Engine, or with what is asked for."""

    def pretend(**changes: object) -> None:
        there = device.Device("cuda", torch.device("cuda", 0), "nccl", True, adam="transformer_engine")
        monkeypatch.setattr(device, "current", lambda: dataclasses.replace(there, **changes))

    return pretend


@pytest.mark.parametrize(
    ("optimizer", "said"),
    [
        ({"precision_aware": True, "distributed": False}, "precision_aware is True with distributed false"),
        ({"offload": 0.5, "distributed": False}, "offload is 0.5 with distributed false"),
        ({"precision_aware": True, "offload": 0.5}, "precision_aware is true with offload 0.5"),
    ],
)
def test_optimizers_that_no_device_has(optimizer: dict, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        config(optimizer=optimizer)


def test_optimizers_that_this_device_has_not(tiny: Path, gpu) -> None:
    arch = Architecture.from_hf(tiny / "moe")
    with pytest.raises(ValueError, match=r"optimizer\.precision_aware is true, but .* are not here: set it false"):
        startup.check(config(optimizer={"precision_aware": True}), arch)
    with pytest.raises(ValueError, match=r"optimizer\.offload is 0\.5 with model\.dtype float32"):
        startup.check(config(optimizer={"offload": 0.5}, model={"dtype": "float32"}), arch)
    startup.check(config(optimizer={"offload": 0.5}), arch)
    gpu()
    startup.check(config(optimizer={"precision_aware": True}), arch)
    startup.check(config(optimizer={"offload": 0.5}), arch)
    gpu(adam="apex")
    with pytest.raises(ValueError, match=r"optimizer\.offload is 0\.5, but .* needs Transformer Engine"):
        startup.check(config(optimizer={"offload": 0.5}), arch)


def test_nothing_to_balance_is_refused(tiny: Path) -> None:
    startup.check(config(model={"aux_loss": 0.1}), Architecture.from_hf(tiny / "moe"))
    with pytest.raises(ValueError, match=r"model\.aux_loss is 0\.1, but .* has no experts: set it 0"):
        startup.check(config(model={"aux_loss": 0.1}), Architecture.from_hf(tiny / "dense"))
    with pytest.raises(ValueError, match="freeze_router true: a frozen router cannot be balanced"):
        config(model={"aux_loss": 0.1, "freeze_router": True})


REPORT = """
import json, sys
from pivotrl.config import parse_config
from pivotrl.policy import startup
from pivotrl.policy.parallel import initialize
from pivotrl.policy.step import Policy

config = parse_config(json.loads(sys.argv[1]), "test")
print("\\n".join(startup.report(Policy(config, initialize(config.parallel, 0)))))
"""


def test_the_report(tiny: Path) -> None:
    tree = {
        "output": "x",
        "model": {"path": str(tiny / "moe"), "recompute": "selective", "freeze_router": True},
        "training": {"offload": True},
        "optimizer": {"offload": 0.5},
    }
    command = [sys.executable, "-c", REPORT, json.dumps(tree)]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr[-4000:]
    assert done.stdout.splitlines()[-7:] == [
        "device: cpu over gloo, 1 rank",
        "layout: TP 1, PP 1, EP 1, ETP 1, DP 1",
        "precision: bfloat16 weights, float32 main weights, float32 gradients, float32 moments, router frozen",
        "memory: recompute selective, packing prompt_once, gradients and optimizer move to the host while the engine "
        "samples",
        "optimizer: Adam of PyTorch, sharded over data-parallel ranks, 50% of it on the CPU",
        "gradient accumulation: not fused (no Transformer Engine, no kernel of NVIDIA Apex)",
        "kernels: attention SdpaAttention, objective plain PyTorch",
    ]
