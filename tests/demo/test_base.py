"""The committed base model: small, whole, and half-good."""

import json
from pathlib import Path

import pytest

from pivotrl.demo.noise import play
from pivotrl.demo.tasks import make_task
from pivotrl.demo.tokenizer import TEMPLATE, render
from pivotrl.trajectories.template import ChatTemplate

BASE = Path(__file__).resolve().parents[2] / "pivotrl" / "demo" / "base"


@pytest.fixture(scope="module")
def model():
    from pivotrl.demo.pretrain import load_model

    return load_model(BASE).eval()


@pytest.fixture(scope="module")
def template():
    return ChatTemplate(BASE)


def test_the_folder_is_small_and_whole():
    names = {path.name for path in BASE.iterdir()}
    assert {"config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"} <= names
    assert sum(path.stat().st_size for path in BASE.iterdir()) <= 8_000_000


def test_layouts_of_the_demo_divide_it():
    config = json.loads((BASE / "config.json").read_text())
    sizes = ("num_attention_heads", "num_key_value_heads", "num_experts", "vocab_size", "moe_intermediate_size")
    assert all(config[name] % 2 == 0 for name in sizes)
    assert config["model_type"] == "qwen3_moe" and config["num_experts"] == 8 and config["num_experts_per_tok"] == 2
    assert all(config[name] % 32 == 0 for name in ("hidden_size", "moe_intermediate_size"))


def test_tokenizer_is_the_recipes_own(template, tokenizer):
    """What `train_tokenizer` makes today is what the weights were trained with."""
    assert template.tokenizer.get_vocab() == tokenizer.get_vocab()
    assert template.tokenizer.chat_template == TEMPLATE
    assert template.tokenizer.eos_token == "<|im_end|>"
    assert len(tokenizer) == json.loads((BASE / "config.json").read_text())["vocab_size"]


def test_prompts_round_trip(template):
    for index in range(20):
        desk, turns = play(make_task("base", index))
        text = "".join(render(desk.messages, desk.tools))
        assert template.decode(template.tokenizer(text)["input_ids"]) == text.replace("<|im_start|>", "").replace(
            "<|im_end|>", ""
        )
        for place, _ in turns:
            ids = template.encode(desk.messages[:place], desk.tools)
            assert template.tokenizer.decode(ids) == "".join(render(desk.messages[:place], desk.tools)) + (
                "<|im_start|>assistant\n"
            )
            assert len(ids) <= 300


def test_the_base_is_half_good(model, template):
    from pivotrl.demo.pretrain import Encoder, measure

    ability = measure(model, Encoder(template.tokenizer), tasks=30, answers=30)
    assert 0.25 <= ability.turns <= 0.60
    assert ability.mixed >= 0.5
    assert min(ability.families.values()) >= 0.80 and sum(ability.families.values()) / len(ability.families) >= 0.9
    assert min(ability.kinds.values()) >= 0.10, "a kind of turn that never succeeds teaches nothing"
