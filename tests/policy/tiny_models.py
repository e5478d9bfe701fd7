"""Tiny models with random weights that spread: norms away from one, routers that choose."""

from pathlib import Path

import torch


def save_tiny_moe(
    folder: Path, seed: int = 0, dtype: torch.dtype = torch.float32, **changes: object
) -> torch.nn.Module:
    """Write a 2-layer Qwen3-MoE (hidden 64, 8 experts, top-2, vocabulary 96) as a Hugging Face folder and return it."""
    from transformers import Qwen3MoeConfig, Qwen3MoeForCausalLM

    sizes = {
        "vocab_size": 96,
        "hidden_size": 64,
        "intermediate_size": 128,
        "moe_intermediate_size": 32,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 32,
        "num_experts": 8,
        "num_experts_per_tok": 2,
        "norm_topk_prob": True,
        "max_position_embeddings": 512,
        "rope_theta": 10000.0,
        "tie_word_embeddings": False,
    }
    config = Qwen3MoeConfig(**(sizes | changes))
    config._attn_implementation = "eager"
    model = Qwen3MoeForCausalLM(config)
    model.set_experts_implementation("eager")
    spread(model, seed)
    model = model.to(dtype).eval()
    model.save_pretrained(folder)
    return model


def spread(model: torch.nn.Module, seed: int) -> None:
    """Give every parameter random values of a useful size, reproducibly."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            noise = torch.randn(parameter.shape, generator=generator)
            if "norm" in name:
                parameter.copy_(1 + 0.1 * noise)
            else:
                parameter.copy_((0.2 if "gate.weight" in name else 0.05) * noise)
