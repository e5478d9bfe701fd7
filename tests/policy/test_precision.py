"""bfloat16 training keeps what bfloat16 alone would lose; frozen routers; recomputation; what a GPU's libraries add."""

import json
import subprocess
import sys

import pytest

from tests.launch import REPOSITORY
from tests.policy.tiny import make


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> dict:
    folder = make("moe", tmp_path_factory.mktemp("moe"))
    command = [sys.executable, "-m", "tests.policy.precision_worker", str(folder)]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-4000:]
    return json.loads(done.stdout.split("RESULT ", 1)[1])


@pytest.mark.parametrize("case", range(4), ids=["sharded", "whole", "all on the CPU", "two fifths on the CPU"])
def test_updates_below_the_resolution_of_bfloat16_add_up(result: dict, case: int) -> None:
    update = result["updates"][case]
    assert (update["adam"] == "HybridDeviceOptimizer") == ("offload" in update["saver"])
    after_one, after_all = update["moved"]
    assert after_one == 0, "one such update must not show in bfloat16, or the test shows nothing"
    assert after_all > 0.5
    assert update["apart"] < 1e-5, "the same steps, whoever keeps the state"


def test_bytes_for_each_parameter(result: dict) -> None:
    for update in result["updates"]:
        held = update["bytes"]
        assert held["weights"] == pytest.approx(2, rel=0.02)
        assert held["gradients"] == pytest.approx(4, rel=0.02)
        assert held["optimizer"] == pytest.approx(12, rel=0.02), "main weights and two moments, all float32"


def test_gradients_of_many_micro_batches_add_up_in_float32(result: dict) -> None:
    errors = result["accumulation"]
    assert errors["ours"] < 1e-6 < 1e-3 < errors["bfloat16"], errors


def test_apex_kernel_where_it_is_installed(result: dict) -> None:
    """The head writes its own gradient beside it; the product is not rounded to bfloat16 before it is added."""
    errors = result["fused"]
    assert errors["ours"] < 1e-6, errors
    assert errors["norm"] == pytest.approx(result["accumulation"]["norm"], rel=1e-3)


def test_frozen_routers_stay_bit_for_bit(result: dict) -> None:
    assert result["routers"]["True"] == {"routers": False, "others": True}
    assert result["routers"]["False"] == {"routers": True, "others": True}


def test_recomputation_keeps_less_and_changes_nothing(result: dict) -> None:
    (none, norm), (selective, selective_norm), (full, full_norm) = (
        result["activations"][how] for how in ("none", "selective", "full")
    )
    assert full < 0.2 * none and selective < 0.8 * none, (none, selective, full)
    assert selective_norm == pytest.approx(norm, rel=1e-6) and full_norm == pytest.approx(norm, rel=1e-6)
