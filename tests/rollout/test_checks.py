"""Users' mistakes, found before vLLM starts."""

import json
from pathlib import Path

import pytest

from pivotrl.rollout.checks import check_engine, check_requests
from pivotrl.rollout.config import RolloutConfig
from pivotrl.rollout.records import Request

MODEL = {
    "max_position_embeddings": 512,
    "num_attention_heads": 12,
    "num_key_value_heads": 4,
    "intermediate_size": 96,
    "moe_intermediate_size": 36,
}


@pytest.mark.parametrize(
    ("changes", "world_size", "message"),
    [
        ({"max_model_len": 513}, 1, "rollout.max_model_len is 513, but the model has 512 positions"),
        ({"tensor": 2}, 3, "rollout.tensor is 2, which does not divide the 3 ranks"),
        ({"tensor": 8}, 8, "rollout.tensor is 8, which does not divide the 12 attention heads"),
        ({"tensor": 3}, 3, "rollout.tensor is 3, which neither divides the 4 key-value heads"),
    ],
)
def test_a_layout_that_cannot_work_names_its_key(tmp_path: Path, changes: dict, world_size: int, message: str) -> None:
    (tmp_path / "config.json").write_text(json.dumps(MODEL))
    with pytest.raises(ValueError, match=message):
        check_engine(RolloutConfig(**({"max_model_len": 512} | changes)), tmp_path, world_size)


def test_experts_that_cannot_be_split_are_named(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(MODEL | {"moe_intermediate_size": 30}))
    with pytest.raises(ValueError, match=r"rollout.tensor is 4, which does not divide the 30 columns of moe_inter"):
        check_engine(RolloutConfig(max_model_len=512, tensor=4), tmp_path, 12)


def test_layouts_that_work(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(MODEL))
    for tensor in (1, 2, 4, 12):
        check_engine(RolloutConfig(max_model_len=512, tensor=tensor), tmp_path, 12)


def test_a_missing_model_is_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=f"model.path: no config.json in {tmp_path}"):
        check_engine(RolloutConfig(), tmp_path, 1)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("[]", "expected a JSON object, found list"),
        ("{}", "max_position_embeddings is None"),
        ("{", "not a JSON file"),
        ('{"max_position_embeddings": 512, "num_attention_heads": "12"}', "num_attention_heads is '12'"),
    ],
)
def test_a_broken_config_json_is_named(tmp_path: Path, content: str, said: str) -> None:
    (tmp_path / "config.json").write_text(content)
    with pytest.raises(ValueError) as error:
        check_engine(RolloutConfig(max_model_len=512), tmp_path, 1)
    assert str(error.value).startswith(f"{tmp_path / 'config.json'}: {said}")


def test_long_and_empty_prompts_are_numbered() -> None:
    fits = Request([1] * 8, 1, 0, 1.0, 1.0, 2)
    check_requests([fits], 10)
    with pytest.raises(ValueError, match=r"request 1: a prompt of 9 tokens with max_tokens 2 .*max_model_len 10"):
        check_requests([fits, Request([1] * 9, 1, 0, 1.0, 1.0, 2)], 10)
    with pytest.raises(ValueError, match="request 0: the prompt is empty"):
        check_requests([Request([], 1, 0, 1.0, 1.0, 2)], 10)


def test_an_engine_sleeps_on_a_gpu_only(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(MODEL))
    check_engine(RolloutConfig(max_model_len=512, sleep=True), tmp_path, 1, "cuda")
    for asked in (False, None):
        check_engine(RolloutConfig(max_model_len=512, sleep=asked), tmp_path, 1, "cpu")
    with pytest.raises(ValueError, match=r"rollout.sleep is true on a CPU.*leave it unset, or write false"):
        check_engine(RolloutConfig(max_model_len=512, sleep=True), tmp_path, 1, "cpu")


def test_expert_parallel_engines_need_a_gpu_and_experts_to_divide(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(MODEL | {"num_experts": 8, "moe_intermediate_size": 30}))
    config = RolloutConfig(max_model_len=512, tensor=4, expert_parallel=True)
    check_engine(config, tmp_path, 4, "cuda")  # whole experts: their 30 columns need not divide
    with pytest.raises(ValueError, match=r"rollout.expert_parallel is true on a CPU"):
        check_engine(config, tmp_path, 4, "cpu")
    (tmp_path / "config.json").write_text(json.dumps(MODEL | {"num_experts": 2}))
    with pytest.raises(ValueError, match=r"rollout.tensor 4 and 2 experts a layer"):
        check_engine(config, tmp_path, 4, "cuda")
