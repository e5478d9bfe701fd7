"""What `tools/plan.py refit` says of the 30B model, whose experts need not travel if both sides place them alike."""

import pytest

from pivotrl.config import load_config
from pivotrl.planning import refit_traffic
from pivotrl.planning.hardware import H100, Cluster
from pivotrl.planning.models import architecture_of
from tests.launch import REPOSITORY

CLUSTER = Cluster(H100, 4, 8)


def table(*overrides: str) -> str:
    config = load_config(str(REPOSITORY / "configs/qwen3_30b_a3b.yaml"), list(overrides))
    arch, _ = architecture_of(config.model.path)
    return refit_traffic.text(config, arch, CLUSTER)


def test_the_table_says_what_travels_where_and_the_floor() -> None:
    said = table()
    # Each of four columns of every expert comes from its owner: 7/8 of 58 GB / 4, at 450 GB/s, and the dense rest.
    assert "531 tensors, 61.06 GB" in said and "8 engines of 4" in said
    assert "floor of the refit on H100: 0.0282 s" in said
    aligned = table("rollout.tensor=8", "rollout.expert_parallel=true")
    assert "experts whole on 8" in aligned and "floor of the refit on H100: 0.0046 s" in aligned


def test_a_layout_that_cannot_work_is_refused() -> None:
    with pytest.raises(ValueError, match=r"rollout\.expert_parallel is true with rollout\.tensor 1"):
        table("rollout.tensor=1", "rollout.expert_parallel=true")
