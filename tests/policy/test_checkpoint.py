"""A resumed run goes on bit for bit, and a damaged checkpoint is refused by name."""

import json
from pathlib import Path

import pytest

from tests.launch import launch
from tests.policy.tiny import build

WORKER = Path(__file__).parent / "checkpoint_ranks.py"


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tiny_moe")
    build("moe").save_pretrained(folder)
    return folder


@pytest.mark.parametrize(
    ("num_ranks", "case"),
    [
        (2, {"parallel": {"tensor": 2, "expert": 2}, "optimizer": {"lr": 1e-3}}),
        (2, {"parallel": {"expert": 2}, "optimizer": {"lr": 1e-3}, "dtype": "bfloat16"}),
        (2, {"parallel": {"pipeline": 2}, "optimizer": {"lr": 1e-3, "distributed": False}}),
    ],
)
def test_a_resumed_run_takes_the_same_steps(model: Path, tmp_path: Path, num_ranks: int, case: dict) -> None:
    output = launch(num_ranks, WORKER, str(model), str(tmp_path), json.dumps(case), timeout=240)
    assert "RESUMED EQUAL" in output


def test_a_damaged_checkpoint_is_refused_by_name(model: Path, tmp_path: Path) -> None:
    output = launch(1, WORKER, str(model), str(tmp_path), json.dumps({"optimizer": {"lr": 1e-3}}), timeout=240)
    assert "RESUMED EQUAL" in output
    refused = [line for line in output.splitlines() if line.startswith("REFUSED")]
    assert len(refused) == 3, output
    assert all("step_000002" in line for line in refused), refused
    assert "ACCEPTED" not in output


def test_changed_settings_are_named() -> None:
    from pivotrl.config import parse_config
    from pivotrl.policy.checkpoint import changes

    tree = {"output": "a", "model": {"path": "m"}, "optimizer": {"lr": 1e-6}, "training": {"steps": 3}}
    saved = parse_config(tree, "test").model_dump(mode="json")
    assert changes(parse_config(tree, "test"), saved) == {}
    later = tree | {"output": "b", "optimizer": {"lr": 2e-6}, "training": {"steps": 9}, "seed": 4}
    assert changes(parse_config(later, "test"), saved) == {"seed": "was 0, is 4", "optimizer.lr": "was 1e-06, is 2e-06"}
