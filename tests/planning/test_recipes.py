"""The recipes for Qwen3-30B-A3B fit 4 and 16 nodes of 8 H100 by the plan, and their verifiers can be built."""

import argparse
from pathlib import Path

import pytest

from pivotrl.config import load_config
from pivotrl.planning.command import find
from pivotrl.verifiers.registry import build_verifier

CONFIGS = sorted((Path(__file__).resolve().parents[2] / "configs").glob("qwen3_30b_a3b*.yaml"))


def test_there_is_a_recipe_for_each_domain_of_the_paper() -> None:
    assert [path.stem.removeprefix("qwen3_30b_a3b") for path in CONFIGS] == ["", "_search", "_swe", "_terminal"]


@pytest.mark.parametrize("nodes", [4, 16])
@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.stem)
def test_a_recipe_fits(path: Path, nodes: int) -> None:
    asked = {"overrides": [], "hf": None, "gpu": "h100", "gpus_per_node": 8, "layouts": False}
    lengths = {"prompt_tokens": None, "response_tokens": None}
    found = find(argparse.Namespace(config=str(path), nodes=nodes, **asked, **lengths))
    assert [found.plan.fits(cluster.gpu) for cluster in found.clusters] == [True]


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.stem)
def test_a_recipe_is_the_papers_batch_and_its_verifier_is_there(path: Path) -> None:
    config = load_config(path)
    training = config.training
    assert (training.pivots_per_step, training.group_size, config.optimizer.lr) == (64, 16, 1e-6)
    build_verifier(config.verifier)
