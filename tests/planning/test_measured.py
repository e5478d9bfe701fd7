"""The plan's memory against real models on a CPU.

The issue asks for weights, gradients and optimizer within 5 % and activations within 15 %; the limits here are closer,
so that a term that goes missing is seen.
"""

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from pivotrl.policy.architecture import Architecture
from pivotrl.policy.mapping import all_tensors
from tests.launch import launch

LIMITS = {"weights": 0.0, "gradients": 0.0, "optimizer": 1e-4, "activations": 0.08}
ON_A_GPU = LIMITS | {"activations": 0.15}
RANKS = Path(__file__).with_name("measure_ranks.py")
SIZES = {
    "num_hidden_layers": 4,
    "hidden_size": 264,  # no multiple of what Megatron's buffers are padded to
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 64,
    "intermediate_size": 768,
    "vocab_size": 512,
    "max_position_embeddings": 2048,
    "rope_theta": 10000.0,
}
MODELS = {
    "moe": {
        "architectures": ["Qwen3MoeForCausalLM"],
        "num_experts": 8,
        "num_experts_per_tok": 2,
        "moe_intermediate_size": 192,
        "norm_topk_prob": True,
    },
    "dense": {"architectures": ["LlamaForCausalLM"], "tie_word_embeddings": True},
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("planned")
    for kind, changes in MODELS.items():
        (root / kind).mkdir()
        (root / kind / "config.json").write_text(json.dumps(SIZES | changes))
        arch, generator = Architecture.from_hf(root / kind), torch.Generator().manual_seed(0)
        weights = {
            name: torch.ones(tensor.shape)
            if len(tensor.shape) == 1
            else torch.randn(tensor.shape, generator=generator) * 0.05
            for name, tensor in all_tensors(arch).items()
        }
        save_file(weights, root / kind / "model.safetensors")
    return root


def held_against(folder: Path, num_ranks: int, cases: list[dict], limits: dict[str, float] = LIMITS) -> None:
    output = launch(num_ranks, RANKS, str(folder), json.dumps(cases), timeout=400)
    found = [json.loads(line.removeprefix("CASE ")) for line in output.splitlines() if line.startswith("CASE ")]
    assert len(found) == num_ranks * len(cases)
    wrong = []
    for one in found:
        for part, limit in limits.items():
            measured, predicted = one["measured"][part], one["predicted"][part]
            off = predicted / measured - 1
            print(f"{one['case']} rank {one['rank']} {part}: measured {measured:,}, predicted {off:+.1%}")
            if abs(off) > limit:
                wrong.append(f"{one['case']} rank {one['rank']} {part}: measured {measured:,}, predicted {predicted:,}")
    assert not wrong, "\n".join(wrong)


BF16 = {"dtype": "bfloat16"}


@pytest.mark.slow
def test_one_rank(folder: Path) -> None:
    def remade(recompute: str, dtype: str = "float32") -> dict:
        return {"model": {"dtype": dtype, "recompute": recompute}}

    held_against(
        folder,
        1,
        [
            {},
            {"packing": "plain"},
            {"model": BF16},
            remade("selective"),
            remade("full"),
            {"kind": "dense", "optimizer": {"distributed": False}},
            {"kind": "dense", "packing": "plain", **remade("full", "bfloat16")},
            {"model": BF16 | {"freeze_router": True}, "packing": "plain", "optimizer": {"distributed": False}},
        ],
    )


@pytest.mark.slow
def test_two_ranks(folder: Path) -> None:
    held_against(
        folder,
        2,
        [
            {"parallel": {"tensor": 2, "expert": 2}, "model": BF16, "packing": "plain"},
            {"parallel": {"tensor": 2}, "model": {"dtype": "float32", "recompute": "full"}},
            {"parallel": {"tensor": 2, "expert_tensor": 2}},
            {"parallel": {"expert": 2}, "model": BF16},
            {"parallel": {}, "model": BF16, "prompts": 2},
            {"parallel": {"pipeline": 2}, "kind": "dense", "prompts": 3},
            {"parallel": {"pipeline": 2, "virtual_pipeline": 2}, "prompts": 4},
        ],
    )


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU")
def test_one_gpu(folder: Path) -> None:
    recomputed = [{"model": BF16 | {"recompute": recompute}} for recompute in ("none", "selective", "full")]
    held_against(folder, 1, [*recomputed, {"model": BF16, "packing": "plain"}], ON_A_GPU)
