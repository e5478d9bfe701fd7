"""The run that most tests plan: NVIDIA's model and recipe, on 4 nodes of 8 GPUs."""

from pathlib import Path

from pivotrl.config import RunConfig, load_config
from pivotrl.planning.hardware import GPUS, Cluster
from pivotrl.planning.models import architecture_of
from pivotrl.policy.architecture import Architecture

CONFIG = Path(__file__).parents[2] / "configs" / "qwen3_30b_a3b.yaml"
RANKS = 32
_FIXED = [
    "parallel.tensor=4",
    "parallel.expert=8",
    "rollout.tensor=4",
    "rollout.kv_cache_gib=24",
    "rollout.sleep=false",
    "model.recompute=full",
    "training.offload=false",
    "optimizer.offload=0",
    "training.micro_batch_tokens=32768",
]


def run(*overrides: str) -> RunConfig:
    """The shipped configuration with what the tests rely on, and the overrides."""
    return load_config(CONFIG, [*_FIXED, *overrides])


def model(name: str = "Qwen3-30B-A3B-Thinking-2507") -> Architecture:
    return architecture_of(f"models/{name}")[0]


def cluster(gpu: str = "h100", nodes: int = 4) -> Cluster:
    return Cluster(GPUS[gpu], nodes, 8)
