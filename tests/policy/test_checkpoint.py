"""A resumed run goes on bit for bit on the same layout, and within rounding on any other one."""

import json
import math
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from pivotrl.config import parse_config
from pivotrl.policy.checkpoint_checksums import DamagedCheckpoint
from pivotrl.policy.checkpoint_run import changes, read
from pivotrl.policy.checkpoint_state import boxes_of_run
from tests.launch import launch
from tests.policy.tiny import build

WORKER = Path(__file__).parent / "checkpoint_ranks.py"
DAMAGE = Path(__file__).parent / "damage_ranks.py"
PLAIN = {"optimizer": {"distributed": False}}
HALF = {"dtype": "bfloat16"}
ROUNDING = 1e-5
"""Of weights near 1 in float32 after two steps; one wrong moment moves them by the learning rate, 3e-4."""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "sizes", "num_ranks", "cases"),
    [
        (
            "moe",
            {"num_hidden_layers": 4},
            4,
            [
                {"parallel": {"tensor": 2, "expert": 2}, "checkpoint": {"background": True}},
                {"parallel": {"expert": 2, "pipeline": 2}},
                PLAIN,
                {"parallel": {"tensor": 2, "pipeline": 2, "virtual_pipeline": 2}},
                {"parallel": {"tensor": 2, "expert": 2, "expert_tensor": 2}, **PLAIN},
            ],
        ),
        ("odd_mixtral", {}, 2, [{**PLAIN}, {"parallel": {"tensor": 2, "expert": 2}}, {"parallel": {"pipeline": 2}}]),
        (
            "qwen2",
            {},
            2,
            [
                {"parallel": {"tensor": 2}, **HALF},
                {**HALF, "optimizer": {"offload": 0.5}},
                {"parallel": {"pipeline": 2}, **PLAIN, **HALF},
            ],
        ),
    ],
)
def test_a_run_goes_on_on_any_layout(tmp_path: Path, kind: str, sizes: dict, num_ranks: int, cases: list) -> None:
    build(kind, **sizes).save_pretrained(tmp_path / "model")
    output = launch(
        num_ranks,
        WORKER,
        str(tmp_path / "model"),
        str(tmp_path / "run"),
        json.dumps(cases),
        timeout=100 + 60 * len(cases),
    )
    assert "RESUMED EQUAL" in output
    results = [json.loads(line.removeprefix("RESULT ")) for line in output.splitlines() if line.startswith("RESULT ")]
    assert len(results) == len(cases)
    if cases[0].get("dtype") != "bfloat16":  # whose rounding in the passes depends on the layout
        assert max(max(result["loss"], result["weights"]) for result in results) < ROUNDING, results


@pytest.mark.slow
def test_damage_is_refused_by_name_and_failures_to_write_leave_what_was_there(tmp_path: Path) -> None:
    build("moe").save_pretrained(tmp_path / "model")
    output = launch(2, DAMAGE, str(tmp_path / "model"), str(tmp_path / "run"), timeout=300)
    assert output.count("ALL REFUSED") == 2, output


@given(st.lists(st.integers(1, 5), min_size=1, max_size=4), st.data())
def test_boxes_cover_a_run_of_elements_once_and_in_order(shape: list[int], data: st.DataObject) -> None:
    count = math.prod(shape)
    start = data.draw(st.integers(0, count))
    stop = data.draw(st.integers(start, count))
    elements = torch.arange(count).view(shape)
    boxes = list(boxes_of_run(shape, start, stop))
    assert len(boxes) <= 2 * len(shape) - 1
    found = [
        elements[tuple(slice(at, at + size) for at, size in zip(offsets, sizes, strict=True))].flatten()
        for offsets, sizes in boxes
    ]
    assert torch.cat([torch.empty(0, dtype=torch.int64), *found]).tolist() == list(range(start, stop))


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("optimizer_step", 10**30),
        ("optimizer_step", -1),
        ("norms", {"main": "x"}),
        ("config", {}),
        ("config", {"optimizer": 3}),
        ("learning_rate", 1),
        ("layout", None),
    ],
)
def test_run_json_that_no_run_writes(tmp_path: Path, key: str, value: object) -> None:
    target = tmp_path / "step_000002"
    target.mkdir()
    good = {"step": 2, "optimizer_step": 2, "learning_rate": 1e-3, "norms": {"main": 1.0}, "layout": {}}
    good |= {"config": {"optimizer": {}}}
    (target / "run.json").write_text(json.dumps(good))
    assert read(target) == good
    for text in (json.dumps(good | {key: value}), "[" * 100_000, ""):
        (target / "run.json").write_text(text)
        with pytest.raises(DamagedCheckpoint, match=r"run\.json: not what a run writes"):
            read(target)


def test_changed_settings_are_named() -> None:
    tree = {"output": "a", "model": {"path": "m"}, "optimizer": {"lr": 1e-6}, "training": {"steps": 3}}
    saved = parse_config(tree, "test").model_dump(mode="json")
    assert changes(parse_config(tree, "test"), saved) == {}
    later = tree | {"output": "b", "optimizer": {"lr": 2e-6}, "training": {"steps": 9}, "seed": 4}
    assert changes(parse_config(later, "test"), saved) == {"seed": "was 0, is 4", "optimizer.lr": "was 1e-06, is 2e-06"}


def test_settings_of_one_side_only_are_named() -> None:
    tree = {"output": "a", "model": {"path": "m"}, "verifier": {"params": {"message": "any"}}}
    saved = parse_config(tree, "test").model_dump(mode="json")
    del saved["optimizer"]["beta1"], saved["verifier"]["params"]["message"]
    saved["optimizer"]["momentum"] = 0.5
    assert changes(parse_config(tree, "test"), saved) == {
        "optimizer.beta1": "was not set, is 0.9",
        "optimizer.momentum": "was 0.5, is not set",
    }
