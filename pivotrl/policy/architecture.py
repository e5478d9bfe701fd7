"""What a Hugging Face `config.json` says about the model, for the architectures that the policy can be."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SUPPORTED = ("Qwen3MoeForCausalLM", "Qwen3ForCausalLM", "LlamaForCausalLM")


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
    """q, k, v and the output projection have a bias."""
    qk_norm: bool
    """q and k are normalised per head before RoPE."""
    experts: int = 0
    top_k: int = 0
    expert_ffn: int = 0
    """Inner width of one expert."""
    normalize_top_k: bool = True
    """The chosen experts' probabilities are scaled to sum to one."""

    @classmethod
    def from_hf(cls, path: str | Path) -> "Architecture":
        """Read `config.json` of a Hugging Face folder.

        Raises:
            ValueError: the file is missing, not JSON, lacks a size, or asks for something that is not supported.
        """
        return _Reader(Path(path) / "config.json").read()


class _Reader:
    """One config.json, with errors that name the file and the key."""

    def __init__(self, file: Path) -> None:
        self.file = file
        if not file.is_file():
            raise ValueError(f"{file}: no such file; give a Hugging Face model folder (config.json and safetensors)")
        try:
            self.values: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
        except (json.JSONDecodeError, UnicodeDecodeError) as error:
            raise ValueError(f"{file}: not a JSON file ({error})") from None
        if not isinstance(self.values, dict):
            raise ValueError(f"{file}: expected a JSON object, found {type(self.values).__name__}")

    def read(self) -> Architecture:
        names = self.values.get("architectures") or []
        name = names[0] if names else None
        if name not in SUPPORTED:
            raise ValueError(f"{self.file}: architectures is {names}; supported are {', '.join(SUPPORTED)}")
        moe = name == "Qwen3MoeForCausalLM"
        self._refuse(moe)
        heads, hidden = self._size("num_attention_heads"), self._size("hidden_size")
        # transformers' own defaults where a config leaves a key out.
        head_dim = self.values.get("head_dim") or (128 if name == "Qwen3ForCausalLM" else hidden // heads)
        rope_theta, rope_factor = self._rope()
        sizes = {}
        if moe:
            sizes = {
                "experts": self._size("num_experts", "num_local_experts"),
                "top_k": self._size("num_experts_per_tok"),
                "expert_ffn": self._size("moe_intermediate_size"),
                "normalize_top_k": bool(self.values.get("norm_topk_prob", False)),
            }
        return Architecture(
            name=name,
            layers=self._size("num_hidden_layers"),
            hidden=hidden,
            heads=heads,
            kv_heads=self.values.get("num_key_value_heads") or heads,
            head_dim=head_dim,
            ffn=self._size("intermediate_size"),
            vocab=self._size("vocab_size"),
            max_positions=self._size("max_position_embeddings"),
            norm_eps=float(self.values.get("rms_norm_eps", 1e-6)),
            rope_theta=rope_theta,
            rope_factor=rope_factor,
            tied=bool(self.values.get("tie_word_embeddings", False)),
            attention_bias=bool(self.values.get("attention_bias", False)),
            qk_norm=name != "LlamaForCausalLM",
            **sizes,
        )

    def _size(self, *keys: str) -> int:
        found = next((self.values[key] for key in keys if self.values.get(key) is not None), None)
        if not isinstance(found, int) or isinstance(found, bool) or found < 1:
            raise ValueError(f"{self.file}: {keys[0]} is {found!r}; expected a positive whole number")
        return found

    def _refuse(self, moe: bool) -> None:
        """Stop on what the built model would silently get wrong."""
        get = self.values.get
        wrong = {
            "hidden_act": (get("hidden_act", "silu") not in ("silu", "swish"), "only silu is supported"),
            "mlp_bias": (bool(get("mlp_bias")), "an MLP with biases is not supported"),
            "use_sliding_window": (bool(get("use_sliding_window")), "sliding-window attention is not supported"),
            "attention_dropout": (bool(get("attention_dropout")), "only 0 is supported"),
            "mlp_only_layers": (moe and bool(get("mlp_only_layers")), "every layer must be an MoE layer"),
            "decoder_sparse_step": (moe and get("decoder_sparse_step", 1) != 1, "every layer must be an MoE layer"),
            "quantization_config": (bool(get("quantization_config")), "give the unquantized weights"),
        }
        for key, (refused, why) in wrong.items():
            if refused:
                raise ValueError(f"{self.file}: {key} is {get(key)!r}: {why}")

    def _rope(self) -> tuple[float, float | None]:
        """Base, and Llama 3's scaling factor; transformers 5 keeps both in `rope_parameters`, older files apart."""
        rope = self.values.get("rope_parameters") or self.values.get("rope_scaling") or {}
        theta = float(rope.get("rope_theta") or self.values.get("rope_theta") or 10000.0)
        kind = rope.get("rope_type") or rope.get("type") or "default"
        if kind == "default":
            return theta, None
        # Megatron-Core has these three numbers written into its code.
        fixed = {"low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 8192}
        if kind != "llama3":
            raise ValueError(f"{self.file}: RoPE type {kind!r} is not supported; supported are default and llama3")
        for key, value in fixed.items():
            if rope.get(key) != value:
                raise ValueError(f"{self.file}: RoPE scaling {key} is {rope.get(key)!r}; only {value} is supported")
        return theta, float(rope["factor"])
