"""Layouts that do not fit get one line that names the key, the numbers and what would do."""

from dataclasses import replace

import pytest

from pivotrl.config import parse_config
from pivotrl.policy.architecture import Architecture
from pivotrl.policy.config import ParallelConfig
from pivotrl.policy.parallel import check_layout

MOE = Architecture(
    name="Qwen3MoeForCausalLM",
    layers=48,
    hidden=2048,
    heads=32,
    kv_heads=4,
    head_dim=128,
    ffn=6144,
    vocab=151936,
    max_positions=4096,
    norm_eps=1e-6,
    rope_theta=1e7,
    rope_factor=None,
    tied=False,
    attention_bias=False,
    qk_norm=True,
    experts=128,
    top_k=8,
    expert_ffn=768,
)
DENSE = replace(MOE, name="Qwen3ForCausalLM", experts=0, top_k=0, expert_ffn=0)


@pytest.mark.parametrize(
    ("layout", "world_size"),
    [
        ({}, 1),
        ({}, 7),
        ({"tensor": 4, "pipeline": 2, "expert": 8}, 64),
        ({"tensor": 2, "expert": 2, "expert_tensor": 2}, 4),
        ({"tensor": 2, "expert": 4}, 4),
        ({"pipeline": 4, "virtual_pipeline": 6}, 4),
        ({"tensor": 4, "pipeline": 4, "virtual_pipeline": 12, "expert": 16}, 128),
    ],
)
def test_accepts(layout: dict, world_size: int) -> None:
    check_layout(ParallelConfig(**layout), MOE, world_size)


@pytest.mark.parametrize(
    ("arch", "layout", "world_size", "said"),
    [
        (MOE, {"tensor": 3}, 3, "parallel.tensor is 3, which does not divide num_attention_heads 32: use 1, 2, 4"),
        (MOE, {"tensor": 8}, 8, "parallel.tensor is 8, which does not divide num_key_value_heads 4: use 1, 2, 4"),
        (replace(DENSE, ffn=6142), {"tensor": 4}, 4, "intermediate_size 6142: use 1, 2"),
        (MOE, {"expert": 3, "pipeline": 2}, 16, "num_experts 128: use 1, 2, 4, 8 (on 16 ranks)"),
        (MOE, {"expert": 3}, 3, "parallel.expert is 3, which does not divide num_experts 128"),
        (MOE, {"expert_tensor": 5}, 5, "parallel.expert_tensor is 5, which does not divide moe_intermediate_size 768"),
        (MOE, {"pipeline": 5}, 5, "parallel.pipeline is 5, which does not divide num_hidden_layers 48"),
        (MOE, {"virtual_pipeline": 2}, 1, "parallel.virtual_pipeline is 2 with parallel.pipeline 1"),
        (MOE, {"pipeline": 4, "virtual_pipeline": 5}, 4, "virtual_pipeline is 5, which does not divide the 12 layers"),
        (MOE, {"pipeline": 4, "virtual_pipeline": 8}, 4, "48, parallel.pipeline 4): use 1, 2, 3, 4, 6, 12"),
        (MOE, {"pipeline": 4, "virtual_pipeline": 2}, 6, "1 x parallel.pipeline 4 needs 4 ranks or a mult"),
        (DENSE, {"expert": 2}, 2, "parallel.expert is 2, but Qwen3ForCausalLM has no experts: use 1"),
        (DENSE, {"expert_tensor": 2}, 2, "parallel.expert_tensor is 2, but Qwen3ForCausalLM has no experts: use 1"),
        (MOE, {"sequence": True}, 1, "parallel.sequence is true with parallel.tensor 1"),
        (MOE, {"tensor": 2, "sequence": False}, 2, "parallel.sequence is false, but an MoE model"),
        (MOE, {"tensor": 4, "pipeline": 2}, 4, "a multiple of it, and 4 were started: start as many (--ranks 8)"),
        (MOE, {"expert": 8, "tensor": 2}, 4, "parallel.expert 8 x parallel.pipeline 1 needs 8 ranks"),
    ],
)
def test_refuses(arch: Architecture, layout: dict, world_size: int, said: str) -> None:
    with pytest.raises(ValueError) as error:
        check_layout(ParallelConfig(**layout), arch, world_size)
    assert said in str(error.value)
    assert "\n" not in str(error.value)


def test_a_vocabulary_may_leave_a_rest() -> None:
    check_layout(ParallelConfig(tensor=4), replace(MOE, vocab=151937), 4)


def test_a_dense_model_may_go_without_sequence_parallelism() -> None:
    check_layout(ParallelConfig(tensor=2, sequence=False), DENSE, 2)


def test_context_parallelism_is_no_key() -> None:
    values = {"output": "unused", "model": {"path": "unused"}, "parallel": {"context": 2}}
    with pytest.raises(ValueError, match=r"parallel\.context"):
        parse_config(values, "run.yaml")
