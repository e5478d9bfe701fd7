"""What a Hugging Face `config.json` says about the model, for the architectures that the policy can be."""

import reprlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pivotrl.json_object import JsonObject

SUPPORTED = (
    "Qwen3MoeForCausalLM",
    "Qwen3ForCausalLM",
    "Qwen2ForCausalLM",
    "LlamaForCausalLM",
    "MixtralForCausalLM",
)

_MOE = ("Qwen3MoeForCausalLM", "MixtralForCausalLM")
_FULL = {"full_attention"}
_LARGEST, _MOST_MLPS = 2**31 - 1, 1_000_000
"""Far above any model's: the weights of a mistyped one would be listed for hours."""
_DEFAULT_EPS = {"MixtralForCausalLM": 1e-5}
"""transformers' own where a config leaves the key out, other than 1e-6."""


@dataclass(frozen=True, slots=True)
class Architecture:
    """Sizes and switches of a decoder, named as in the literature; `experts` is 0 for a dense model."""

    name: str
    """The Hugging Face class, one of SUPPORTED."""
    layers: int
    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    ffn: int
    """Inner width of a dense layer's MLP."""
    vocab: int
    max_positions: int
    norm_eps: float
    rope_theta: float
    rope_factor: float | None
    """Factor of Llama 3's frequency scaling, None without it."""
    tied: bool
    """The output layer is the transposed embedding."""
    attention_bias: bool
    """q, k and v have a bias."""
    qk_norm: bool
    """q and k are normalised per head before RoPE."""
    experts: int = 0
    top_k: int = 0
    expert_ffn: int = 0
    """Inner width of one expert."""
    normalize_top_k: bool = True
    """The chosen experts' probabilities are scaled to sum to one."""
    output_bias: bool = False
    """The attention's output projection has a bias."""

    @classmethod
    def from_hf(cls, path: str | Path) -> "Architecture":
        """Read `config.json` of a Hugging Face folder.

        Raises:
            ValueError: the file is missing, not JSON, lacks a size, or asks for something that is not supported.
        """
        return _Reader(Path(path) / "config.json").read()


def first_difference(one: Architecture, other: Architecture) -> str:
    """The first field in which two architectures differ; they do."""
    name = next(name for name in Architecture.__slots__ if getattr(one, name) != getattr(other, name))
    return f"{name} is {getattr(one, name)}, not {getattr(other, name)}"


class _Reader(JsonObject):
    """One config.json of a model."""

    def __init__(self, file: Path) -> None:
        if not file.is_file():
            raise ValueError(f"{file}: no such file; give a Hugging Face model folder (config.json and safetensors)")
        super().__init__(file)

    def read(self) -> Architecture:
        names = self.values.get("architectures")
        name = names[0] if isinstance(names, list) and names else None
        if name not in SUPPORTED:
            found = reprlib.repr(names)
            raise ValueError(f"{self.file}: architectures is {found}; supported are {', '.join(SUPPORTED)}, in a list")
        self._refuse(name)
        heads, hidden = self.size("num_attention_heads"), self.size("hidden_size")
        kv_heads = self.size("num_key_value_heads", default=heads)
        if heads % kv_heads:
            raise self.wrong("num_key_value_heads", kv_heads, f"a divisor of num_attention_heads, which is {heads}")
        rope_theta, rope_factor = self._rope(name)
        attention_bias = self.switch("attention_bias")
        experts = self._experts(name) if name in _MOE else {}
        layers = self.size("num_hidden_layers")
        if layers * experts.get("experts", 1) > _MOST_MLPS:
            beside = f" with num_experts {experts['experts']}" if experts else ""
            raise self.wrong("num_hidden_layers", layers, f"at most {_MOST_MLPS} MLPs in all layers{beside}")
        return Architecture(
            name=name,
            layers=layers,
            hidden=hidden,
            heads=heads,
            kv_heads=kv_heads,
            head_dim=self._head_dim(name, hidden, heads),
            ffn=self.size("intermediate_size"),
            vocab=self.size("vocab_size"),
            max_positions=self.size("max_position_embeddings"),
            norm_eps=self.positive("rms_norm_eps", self.values.get("rms_norm_eps", _DEFAULT_EPS.get(name, 1e-6))),
            rope_theta=rope_theta,
            rope_factor=rope_factor,
            tied=self.switch("tie_word_embeddings"),
            # transformers' Qwen2 and Mixtral have no such key: the one always has q, k and v's, the other never.
            attention_bias=name == "Qwen2ForCausalLM" or (attention_bias and name != "MixtralForCausalLM"),
            output_bias=attention_bias and name not in ("Qwen2ForCausalLM", "MixtralForCausalLM"),
            qk_norm=name.startswith("Qwen3"),
            **experts,
        )

    def size(self, *keys: str, default: int | None = None) -> int:
        """As `JsonObject.size`, and small enough that torch can count what it makes."""
        found = super().size(*keys, default=default)
        if found > _LARGEST:
            raise self.wrong(keys[0], found, f"at most {_LARGEST}")
        return found

    def _head_dim(self, name: str, hidden: int, heads: int) -> int:
        # transformers' own defaults where a config leaves the key out.
        default = 128 if name == "Qwen3ForCausalLM" else hidden // heads
        head_dim = self.size("head_dim", default=default)
        if name == "Qwen2ForCausalLM" and head_dim != hidden // heads:
            raise self.wrong("head_dim", head_dim, f"hidden_size / num_attention_heads, {hidden // heads}, as in vLLM")
        if head_dim % 2:
            raise self.wrong("head_dim", head_dim, "an even number, because RoPE turns pairs")
        return head_dim

    def _experts(self, name: str) -> dict[str, Any]:
        experts, top_k = self.size("num_experts", "num_local_experts"), self.size("num_experts_per_tok")
        if top_k > experts:
            raise self.wrong("num_experts_per_tok", top_k, f"at most num_experts, which is {experts}")
        mixtral = name == "MixtralForCausalLM"
        normalize = mixtral or self.switch("norm_topk_prob")
        if top_k == 1 and normalize:
            # The one chosen expert would weigh 1, whatever the router says; Megatron-Core refuses it as well.
            why = "" if mixtral else " where norm_topk_prob is true"
            raise self.wrong("num_experts_per_tok", top_k, f"at least 2{why}")
        return {
            "experts": experts,
            "top_k": top_k,
            "expert_ffn": self.size("intermediate_size" if mixtral else "moe_intermediate_size"),
            "normalize_top_k": normalize,
        }

    def _refuse(self, name: str) -> None:
        """Stop on what the built model would silently get wrong."""
        get = self.values.get
        moe = name == "Qwen3MoeForCausalLM"
        window, layer_types = get("sliding_window"), get("layer_types")
        positions = get("max_position_embeddings")
        # Mixtral uses a window wherever there is one; one of the whole context changes nothing.
        mixtral_window = name == "MixtralForCausalLM" and window is not None
        mixtral_window &= not (isinstance(window, int) and isinstance(positions, int) and window >= positions)
        all_full = layer_types is None or (isinstance(layer_types, list) and set(map(str, layer_types)) <= _FULL)
        wrong = {
            "hidden_act": (get("hidden_act", "silu") not in ("silu", "swish"), "only silu is supported"),
            "mlp_bias": (self.switch("mlp_bias"), "an MLP with biases is not supported"),
            "use_sliding_window": (self.switch("use_sliding_window"), "sliding-window attention is not supported"),
            "sliding_window": (mixtral_window, "sliding-window attention is not supported"),
            "layer_types": (not all_full, "only layers of full attention are supported"),
            "dual_chunk_attention_config": (
                bool(get("dual_chunk_attention_config")),
                "dual-chunk attention is not supported; remove the key for contexts up to its chunk_size",
            ),
            "router_jitter_noise": (bool(get("router_jitter_noise")), "only 0 is supported"),
            "attention_dropout": (bool(get("attention_dropout")), "only 0 is supported"),
            "mlp_only_layers": (moe and bool(get("mlp_only_layers")), "every layer must be an MoE layer"),
            "decoder_sparse_step": (moe and get("decoder_sparse_step", 1) != 1, "every layer must be an MoE layer"),
            "quantization_config": (bool(get("quantization_config")), "give the unquantized weights"),
        }
        for key, (refused, why) in wrong.items():
            if refused:
                raise ValueError(f"{self.file}: {key} is {reprlib.repr(get(key))}: {why}")

    def _rope(self, name: str) -> tuple[float, float | None]:
        """Base, and Llama 3's scaling factor; transformers 5 keeps both in `rope_parameters`, older files apart."""
        key = "rope_parameters" if self.values.get("rope_parameters") else "rope_scaling"
        rope = self.values.get(key) or {}
        if not isinstance(rope, dict):
            raise self.wrong(key, rope, "a JSON object")
        default = 1e6 if name == "MixtralForCausalLM" else 1e4  # transformers' own
        theta = self.positive("rope_theta", rope.get("rope_theta") or self.values.get("rope_theta") or default)
        kind = rope.get("rope_type") or rope.get("type") or "default"
        if kind == "default":
            return theta, None
        # Megatron-Core has these three numbers written into its code.
        fixed = {"low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 8192}
        if kind != "llama3":
            raise ValueError(
                f"{self.file}: RoPE type {reprlib.repr(kind)} is not supported; supported are default and llama3"
            )
        for number, value in fixed.items():
            if rope.get(number) != value:
                found = reprlib.repr(rope.get(number))
                raise ValueError(f"{self.file}: RoPE scaling {number} is {found}; only {value} is supported")
        return theta, self.positive(f"{key}.factor", rope.get("factor"))
