"""Reading config.json, and refusing what would be built wrongly."""

import json
from pathlib import Path

import pytest

from pivotrl.policy.architecture import Architecture

QWEN3_30B_A3B = {
    "architectures": ["Qwen3MoeForCausalLM"],
    "attention_bias": False,
    "decoder_sparse_step": 1,
    "head_dim": 128,
    "hidden_act": "silu",
    "hidden_size": 2048,
    "intermediate_size": 6144,
    "max_position_embeddings": 262144,
    "mlp_only_layers": [],
    "moe_intermediate_size": 768,
    "norm_topk_prob": True,
    "num_attention_heads": 32,
    "num_experts": 128,
    "num_experts_per_tok": 8,
    "num_hidden_layers": 48,
    "num_key_value_heads": 4,
    "rms_norm_eps": 1e-06,
    "rope_scaling": None,
    "rope_theta": 10000000,
    "tie_word_embeddings": False,
    "use_sliding_window": False,
    "vocab_size": 151936,
}
"""The target model's config.json as transformers 4 wrote it."""


def write(folder: Path, config: object) -> Path:
    (folder / "config.json").write_text(config if isinstance(config, str) else json.dumps(config))
    return folder


def test_reads_a_transformers_4_file(tmp_path: Path) -> None:
    arch = Architecture.from_hf(write(tmp_path, QWEN3_30B_A3B))
    assert (arch.layers, arch.heads, arch.kv_heads, arch.head_dim) == (48, 32, 4, 128)
    assert (arch.experts, arch.top_k, arch.expert_ffn, arch.normalize_top_k) == (128, 8, 768, True)
    assert (arch.rope_theta, arch.rope_factor, arch.tied, arch.qk_norm) == (1e7, None, False, True)


def test_reads_rope_and_experts_as_transformers_5_writes_them(tmp_path: Path) -> None:
    new = QWEN3_30B_A3B | {"rope_parameters": {"rope_theta": 5e5, "rope_type": "default"}, "num_local_experts": 64}
    for old in ("rope_theta", "rope_scaling", "num_experts", "norm_topk_prob"):
        del new[old]
    arch = Architecture.from_hf(write(tmp_path, new))
    assert (arch.rope_theta, arch.experts) == (5e5, 64)
    assert not arch.normalize_top_k, "transformers' default where the key is missing"


def test_head_dim_defaults_as_in_transformers(tmp_path: Path) -> None:
    config = {key: value for key, value in QWEN3_30B_A3B.items() if key != "head_dim"}
    assert Architecture.from_hf(write(tmp_path, config)).head_dim == 64
    assert Architecture.from_hf(write(tmp_path, config | {"architectures": ["Qwen3ForCausalLM"]})).head_dim == 128


def test_reads_llama_3_scaling(tmp_path: Path) -> None:
    scaling = {"rope_type": "llama3", "factor": 32.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0}
    scaling["original_max_position_embeddings"] = 8192
    config = QWEN3_30B_A3B | {"architectures": ["LlamaForCausalLM"], "rope_scaling": scaling}
    arch = Architecture.from_hf(write(tmp_path, config))
    assert (arch.rope_factor, arch.rope_theta, arch.experts, arch.qk_norm) == (32.0, 1e7, 0, False)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"architectures": ["GptOssForCausalLM"]}, "Qwen3ForCausalLM, Qwen2ForCausalLM, LlamaForCausalLM, Mix"),
        ({"architectures": None}, "supported are"),
        ({"mlp_only_layers": [0]}, "mlp_only_layers is [0]"),
        ({"decoder_sparse_step": 2}, "decoder_sparse_step is 2"),
        ({"hidden_act": "gelu"}, "hidden_act is 'gelu'"),
        ({"use_sliding_window": True}, "use_sliding_window"),
        ({"quantization_config": {"quant_method": "fp8"}}, "unquantized"),
        ({"rope_scaling": {"type": "yarn", "factor": 4.0}}, "RoPE type 'yarn'"),
        ({"rope_scaling": {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 2.0}}, "low_freq_factor is 2.0"),
        ({"num_hidden_layers": None}, "num_hidden_layers is None"),
        ({"num_hidden_layers": 10_000}, "at most 1000000 MLPs in all layers with num_experts 128"),
        ({"hidden_size": 10**30}, "at most 2147483647"),
        ({"hidden_size": "big"}, "hidden_size is 'big'"),
        ({"num_experts": 0}, "num_experts is 0"),
        ({"architectures": 5}, "architectures is 5"),
        ({"architectures": {"a": 1}}, "architectures is {'a': 1}"),
        ({"architectures": "Qwen3MoeForCausalLM"}, "MixtralForCausalLM, in a list"),
        ({"layer_types": ["full_attention", "sliding_attention"]}, "only layers of full attention"),
        ({"layer_types": 3}, "layer_types is 3"),
        ({"dual_chunk_attention_config": {"chunk_size": 262144}}, "remove the key for contexts up to"),
        ({"num_key_value_heads": "2"}, "num_key_value_heads is '2'"),
        ({"num_key_value_heads": 2.0}, "num_key_value_heads is 2.0"),
        ({"num_key_value_heads": 5}, "num_key_value_heads is 5; expected a divisor of num_attention_heads"),
        ({"head_dim": "x"}, "head_dim is 'x'"),
        ({"head_dim": 7}, "head_dim is 7; expected an even number"),
        ({"rms_norm_eps": None}, "rms_norm_eps is None"),
        ({"rms_norm_eps": "x"}, "rms_norm_eps is 'x'"),
        ({"rms_norm_eps": float("nan")}, "rms_norm_eps is nan"),
        ({"rope_parameters": [1]}, "rope_parameters is [1]; expected a JSON object"),
        ({"rope_theta": 10**400}, "rope_theta is 1000"),
        ({"rope_theta": "abc"}, "rope_theta is 'abc'"),
        (
            {
                "rope_scaling": {
                    "rope_type": "llama3",
                    "low_freq_factor": 1.0,
                    "high_freq_factor": 4.0,
                    "original_max_position_embeddings": 8192,
                }
            },
            "rope_scaling.factor is None",
        ),
        ({"num_experts_per_tok": 129}, "num_experts_per_tok is 129; expected at most num_experts, which is 128"),
        ({"num_experts_per_tok": 1}, "num_experts_per_tok is 1; expected at least 2"),
        ({"tie_word_embeddings": "false"}, "tie_word_embeddings is 'false'; expected true or false"),
    ],
)
def test_refuses_by_name(tmp_path: Path, changes: dict, said: str) -> None:
    with pytest.raises(ValueError) as error:
        Architecture.from_hf(write(tmp_path, QWEN3_30B_A3B | changes))
    assert said in str(error.value)
    assert str(tmp_path / "config.json") in str(error.value)
    assert "\n" not in str(error.value)


QWEN2 = {key: value for key, value in QWEN3_30B_A3B.items() if key not in ("head_dim", "attention_bias", "rope_theta")}
QWEN2 |= {"architectures": ["Qwen2ForCausalLM"], "sliding_window": 131072, "max_window_layers": 28}
MIXTRAL = {
    "architectures": ["MixtralForCausalLM"],
    "head_dim": None,
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "max_position_embeddings": 32768,
    "num_attention_heads": 32,
    "num_experts_per_tok": 2,
    "num_hidden_layers": 32,
    "num_key_value_heads": 8,
    "num_local_experts": 8,
    "sliding_window": None,
    "vocab_size": 32000,
}


def test_reads_qwen_2(tmp_path: Path) -> None:
    arch = Architecture.from_hf(write(tmp_path, QWEN2 | {"layer_types": ["full_attention"] * 48}))
    assert (arch.attention_bias, arch.output_bias, arch.qk_norm, arch.head_dim) == (True, False, False, 64)
    assert (arch.experts, arch.rope_theta) == (0, 1e4)
    with pytest.raises(ValueError, match="head_dim is 128; expected hidden_size / num_attention_heads, 64"):
        Architecture.from_hf(write(tmp_path, QWEN2 | {"head_dim": 128}))


def test_reads_mixtral(tmp_path: Path) -> None:
    arch = Architecture.from_hf(write(tmp_path, MIXTRAL))
    assert (arch.experts, arch.top_k, arch.expert_ffn, arch.normalize_top_k) == (8, 2, 14336, True)
    assert (arch.attention_bias, arch.output_bias, arch.qk_norm, arch.head_dim) == (False, False, False, 128)
    assert (arch.rope_theta, arch.norm_eps) == (1e6, 1e-5), "transformers' defaults"
    Architecture.from_hf(write(tmp_path, MIXTRAL | {"sliding_window": 32768}))
    for changes, said in (
        ({"sliding_window": 4096}, "sliding_window is 4096"),
        ({"router_jitter_noise": 0.1}, "router_jitter_noise is 0.1"),
        ({"num_experts_per_tok": 1}, "num_experts_per_tok is 1; expected at least 2"),
    ):
        with pytest.raises(ValueError, match=said):
            Architecture.from_hf(write(tmp_path, MIXTRAL | changes))


def test_llama_bias_is_on_the_output_too(tmp_path: Path) -> None:
    config = QWEN3_30B_A3B | {"architectures": ["LlamaForCausalLM"], "attention_bias": True}
    arch = Architecture.from_hf(write(tmp_path, config))
    assert arch.attention_bias and arch.output_bias


@pytest.mark.parametrize("content", ["{", "[]", "\x00\xff", "[" * 100_000, '{"a": ' + "9" * 5000 + "}"])
def test_refuses_what_is_not_a_json_object(tmp_path: Path, content: str) -> None:
    with pytest.raises(ValueError, match=r"config\.json"):
        Architecture.from_hf(write(tmp_path, content))


def test_missing_file(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no such file"):
        Architecture.from_hf(tmp_path / "nowhere")
