"""Tiny Hugging Face models with telling weights, and what transformers computes with them.

Norm weights differ from one, routers spread their choices, head_dim is not hidden / heads, and query and key-value
heads differ in number, so that a swapped or transposed tensor shows.
"""

import json
from pathlib import Path

import torch

ROWS, LENGTH = 4, 13
PACKED_LENGTHS = (5, 12, 1, 8)
"""Tokens of each row that the packed micro-batch takes."""

_COMMON = {
    "vocab_size": 96,
    "hidden_size": 48,
    "intermediate_size": 80,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "max_position_embeddings": 64,
}
_MOE = {"num_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 24}
_LLAMA3 = {
    "rope_type": "llama3",
    "rope_theta": 500000.0,
    "factor": 4.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 8192,
}
KINDS = {
    "moe": ("Qwen3Moe", {**_MOE, "norm_topk_prob": True, "rope_parameters": {"rope_theta": 500.0}}),
    "moe_raw_probs": ("Qwen3Moe", {**_MOE, "norm_topk_prob": False, "tie_word_embeddings": True}),
    "dense": ("Qwen3", {"rope_parameters": {"rope_theta": 2000.0}}),
    "llama_tied": ("Llama", {"tie_word_embeddings": True}),
    "llama_bias": ("Llama", {"attention_bias": True, "rope_parameters": _LLAMA3, "max_position_embeddings": 16384}),
    "odd_mixtral": ("Mixtral", {"num_local_experts": 8, "num_experts_per_tok": 2, "vocab_size": 97}),
    "qwen2": ("Qwen2", {"head_dim": None, "hidden_size": 64, "vocab_size": 95, "tie_word_embeddings": True}),
}


def build(kind: str, **sizes: int) -> torch.nn.Module:
    """The transformers model of that kind, in float32; `sizes` are keys of its config that are other than here."""
    import transformers

    name, changes = KINDS[kind]
    keys = {key: value for key, value in {**_COMMON, **changes, **sizes}.items() if value is not None}
    config = getattr(transformers, f"{name}Config")(**keys)
    config._attn_implementation = "eager"
    torch.manual_seed(sorted(KINDS).index(kind))
    model = getattr(transformers, f"{name}ForCausalLM")(config).float()
    with torch.no_grad():
        for parameter_name, parameter in model.named_parameters():
            if "norm" in parameter_name:
                parameter.normal_(1, 0.2)
            else:
                parameter.normal_(0, 0.4 if "mlp.gate.weight" in parameter_name else 0.08)
    return model


def make(kind: str, folder: Path, dtype: torch.dtype = torch.float32) -> Path:
    """Write the model of that kind to `folder`, and `reference.pt` beside its weights: inputs, logits and gradients."""
    model = build(kind)
    with torch.no_grad():
        for parameter in model.parameters():  # parameters only: RoPE's frequencies are a buffer, and stay as they are
            parameter.copy_(parameter.to(dtype))
    ids = torch.randint(0, model.config.vocab_size, (ROWS, LENGTH + 1))
    inputs, labels = ids[:, :-1], ids[:, 1:]
    logits = model(input_ids=inputs).logits
    reference = {"inputs": inputs, "labels": labels, "logits": logits.detach()}
    loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten())
    reference["grads"] = _gradients(model, loss)
    logits = model(input_ids=inputs).logits
    kept = torch.cat([logits[row, :length] for row, length in enumerate(PACKED_LENGTHS)])
    targets = torch.cat([labels[row, :length] for row, length in enumerate(PACKED_LENGTHS)])
    reference["packed_grads"] = _gradients(model, torch.nn.functional.cross_entropy(kept, targets))
    model.to(dtype).save_pretrained(folder)
    torch.save(reference, folder / "reference.pt")
    return folder


def _gradients(model: torch.nn.Module, loss: torch.Tensor) -> dict[str, torch.Tensor]:
    model.zero_grad()
    loss.backward()
    gradients = {name: parameter.grad for name, parameter in model.named_parameters()}
    return on_disk(gradients, MIXTRAL if model.config.model_type == "mixtral" else QWEN)


QWEN, MIXTRAL = ("mlp", "gate_proj", "up_proj", "down_proj"), ("block_sparse_moe", "w1", "w3", "w2")


def on_disk(tensors: dict[str, torch.Tensor], moe: tuple[str, str, str, str] = QWEN) -> dict[str, torch.Tensor]:
    """Copies under the names that files use: transformers' fused experts as one tensor per expert and projection."""
    result = {}
    block, gate_name, up_name, down_name = moe
    for memory_name, tensor in tensors.items():
        name = memory_name.replace(".mlp.", f".{block}.")
        if name.endswith("experts.gate_up_proj"):
            for expert, pair in enumerate(tensor):
                gate, up = pair.chunk(2)
                result[name.replace("gate_up_proj", f"{expert}.{gate_name}.weight")] = gate.clone()
                result[name.replace("gate_up_proj", f"{expert}.{up_name}.weight")] = up.clone()
        elif name.endswith("experts.down_proj"):
            for expert, down in enumerate(tensor):
                result[name.replace("down_proj", f"{expert}.{down_name}.weight")] = down.clone()
        else:
            result[name] = tensor.clone()
    return result


def edit_config(folder: Path, **changes: object) -> None:
    """Change keys of `config.json`; None removes one."""
    file = folder / "config.json"
    config = json.loads(file.read_text())
    for key, value in changes.items():
        config.pop(key, None)
        if value is not None:
            config[key] = value
    file.write_text(json.dumps(config))
