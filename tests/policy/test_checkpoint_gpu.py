"""Checkpoints of the optimizers that only a GPU has: saved, loaded by each other, and saved again bit for bit."""

import importlib.util
import json
from pathlib import Path

import pytest
import torch

from tests.launch import launch
from tests.policy.tiny import build

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU")]
WORKER = Path(__file__).parent / "checkpoint_ranks.py"


def resumed(tmp_path: Path, cases: list[dict]) -> None:
    build("moe").save_pretrained(tmp_path / "model")
    arguments = [
        str(tmp_path / "model"),
        str(tmp_path / "run"),
        json.dumps([{"dtype": "bfloat16", **x} for x in cases]),
    ]
    assert "RESUMED EQUAL" in launch(1, WORKER, *arguments, timeout=300)


def test_distributed_and_not_in_the_background(tmp_path: Path) -> None:
    resumed(tmp_path, [{"checkpoint": {"background": True}}, {"optimizer": {"distributed": False}}])


@pytest.mark.skipif(not importlib.util.find_spec("transformer_engine"), reason="needs Transformer Engine")
@pytest.mark.parametrize("optimizer", [{"precision_aware": True}, {"offload": 0.5}])
def test_optimizers_of_transformer_engine(tmp_path: Path, optimizer: dict) -> None:
    # The moments of the first are bfloat16 numbers, which the others hold as they are; the other way they are rounded.
    resumed(tmp_path, [{"optimizer": optimizer}, {}])
