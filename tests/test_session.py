"""What a session refuses before a process group starts."""

import json
from pathlib import Path

import pytest
import torch.distributed as dist

from pivotrl.config import parse_config
from pivotrl.session import open_session

SIZES = {
    "architectures": ["Qwen3MoeForCausalLM"],
    "num_hidden_layers": 4,
    "hidden_size": 48,
    "num_attention_heads": 12,
    "num_key_value_heads": 4,
    "head_dim": 16,
    "intermediate_size": 80,
    "vocab_size": 96,
    "max_position_embeddings": 512,
    "num_experts": 8,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 24,
    "norm_topk_prob": True,
}


@pytest.mark.parametrize(
    ("section", "values", "message"),
    [
        ("parallel", {"tensor": 8}, r"parallel\.tensor is 8, which does not divide num_attention_heads 12"),
        ("parallel", {"expert": 3}, r"parallel\.expert is 3, which does not divide num_experts 8"),
        ("parallel", {"expert_tensor": 5}, r"parallel\.expert_tensor is 5, which does not divide moe_intermediate_si"),
        ("parallel", {"pipeline": 3}, r"parallel\.pipeline is 3, which does not divide num_hidden_layers 4"),
        ("parallel", {"tensor": 4}, r"parallel\.tensor 4 x parallel\.pipeline 1 needs 4 ranks or a mult"),
        ("rollout", {"tensor": 4}, r"rollout\.tensor is 4, which does not divide the 6 ranks"),
        ("rollout", {"tensor": 3}, r"rollout\.tensor is 3, which neither divides the 4 key-value heads"),
        ("rollout", {"max_model_len": 513}, r"rollout\.max_model_len is 513, but the model has 512 positions"),
    ],
)
def test_a_layout_that_cannot_work_starts_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, section: str, values: dict, message: str
) -> None:
    (tmp_path / "config.json").write_text(json.dumps(SIZES))
    monkeypatch.setenv("WORLD_SIZE", "6")
    tree = {"output": str(tmp_path / "run"), "model": {"path": str(tmp_path), "dtype": "float32"}}
    tree["rollout"] = {"max_model_len": 512, "max_new_tokens": 64}
    tree[section] = tree.get(section, {}) | values
    with pytest.raises(ValueError, match=message):
        open_session(parse_config(tree, "test"))
    assert not dist.is_initialized()
