"""Random models of the demo's size, with a tokenizer, as Hugging Face folders; transformers is the oracle."""

from collections.abc import Iterator
from pathlib import Path
from typing import Self

import torch
from torch import Tensor

from pivotrl.policy.shards import Block, Bounds

VOCABULARY = 640
END = "<|im_end|>"
MARKUP = ("<tool_call>", "</tool_call>", "<think>", "</think>")


def save_tokenizer(folder: Path, markup: tuple[str, ...] = MARKUP) -> None:
    """A byte-level BPE tokenizer of at most `VOCABULARY` tokens, with a chat template and `markup` as whole tokens."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from tokenizers.trainers import BpeTrainer
    from transformers import PreTrainedTokenizerFast

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = BpeTrainer(
        vocab_size=VOCABULARY - 8,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        special_tokens=["<|endoftext|>", "<|im_start|>", END],
    )
    tokenizer.train_from_iterator(['{"name": "get_order", "arguments": {"id": "w1"}}'], trainer)
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token=END, pad_token="<|endoftext|>")
    fast.add_tokens(list(markup))
    fast.chat_template = (
        "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
        "<|im_start|>assistant\n"
    )
    fast.save_pretrained(folder)


def save_moe(folder: Path, seed: int = 0, **changes: object) -> torch.nn.Module:
    """Write a Qwen3-MoE of the demo's shape (4 layers, hidden 128, 8 experts, top-2, 1.15 M parameters), float32."""
    from transformers import Qwen3MoeConfig, Qwen3MoeForCausalLM

    sizes = {
        "vocab_size": VOCABULARY,
        "hidden_size": 128,
        "intermediate_size": 256,
        "moe_intermediate_size": 64,
        "num_hidden_layers": 4,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 32,
        "num_experts": 8,
        "num_experts_per_tok": 2,
        "norm_topk_prob": True,
        "max_position_embeddings": 2048,
        "tie_word_embeddings": False,
        "eos_token_id": 2,
        "bos_token_id": None,
    }
    model = Qwen3MoeForCausalLM(Qwen3MoeConfig(**(sizes | changes))).eval()
    spread(model, seed)
    model.save_pretrained(folder)
    save_tokenizer(folder)
    return model


def save_llama(folder: Path, seed: int = 0) -> torch.nn.Module:
    """Write a dense Llama with a tied head, biases in attention and one key-value head, float32."""
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=VOCABULARY - 1,  # not a multiple of vLLM's padding
        hidden_size=128,
        intermediate_size=192,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=1,
        head_dim=32,
        max_position_embeddings=2048,
        tie_word_embeddings=True,
        attention_bias=True,
        eos_token_id=2,
        bos_token_id=None,
    )
    model = LlamaForCausalLM(config).eval()
    spread(model, seed)
    model.save_pretrained(folder)
    save_tokenizer(folder)
    return model


def save_qwen2(folder: Path, seed: int = 0) -> torch.nn.Module:
    """Write a dense Qwen2.5 with a tied head, float32; q, k and v have biases, the output projection has none."""
    from transformers import Qwen2Config, Qwen2ForCausalLM

    config = Qwen2Config(
        vocab_size=VOCABULARY - 1,
        hidden_size=128,
        intermediate_size=192,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=2048,
        tie_word_embeddings=True,
        eos_token_id=2,
        bos_token_id=None,
    )
    model = Qwen2ForCausalLM(config).eval()
    spread(model, seed)
    model.save_pretrained(folder)
    save_tokenizer(folder)
    return model


def save_mixtral(folder: Path, seed: int = 0) -> torch.nn.Module:
    """Write a Mixtral of the demo's shape, float32."""
    from transformers import MixtralConfig, MixtralForCausalLM

    config = MixtralConfig(
        vocab_size=VOCABULARY,
        hidden_size=128,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        num_local_experts=8,
        max_position_embeddings=2048,
        eos_token_id=2,
        bos_token_id=None,
    )
    model = MixtralForCausalLM(config).eval()
    spread(model, seed)
    model.save_pretrained(folder)
    save_tokenizer(folder)
    return model


def spread(model: torch.nn.Module, seed: int) -> None:
    """Random weights under which every part matters: norms away from one, peaked logits, routers that choose."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            noise = torch.randn(parameter.shape, generator=generator)
            parameter.copy_(1 + 0.1 * noise if "norm" in name else 0.1 * noise)


class WholeShards:
    """Tensors that every rank owns whole, as a refit reads them."""

    stages = 1

    def __init__(self, tensors: dict[str, Tensor]):
        self.tensors = tensors
        first = next(iter(tensors.values()))
        self.dtype, self.device = first.dtype, first.device

    def blocks(self, rank: int) -> list[Block]:
        return [
            Block(name, tuple(tensor.shape), tuple((0, size) for size in tensor.shape), (name,))
            for name, tensor in self.tensors.items()
        ]

    def check(self, block: Block) -> str | None:
        return None

    def read(self, block: Block, bounds: Bounds) -> list[Tensor]:
        return [self.tensors[block.tensor][tuple(slice(*pair) for pair in bounds)]]


class TransformersPolicy:
    """A transformers model with what a refit uses of `policy.step.Policy`."""

    def __init__(self, folder: Path, model: torch.nn.Module):
        from pivotrl.policy.architecture import Architecture

        self.arch, self.model = Architecture.from_hf(folder), model

    def on(self, device: str) -> Self:
        """The same on another device; `score` computes there, too."""
        self.model.to(device)
        return self

    @property
    def shards(self) -> "WholeShards":
        """Every rank owns everything; an MoE layer's experts are two stacked tensors."""
        return WholeShards(dict(self.tensors()))

    def tensors(self) -> Iterator[tuple[str, Tensor]]:
        """Every tensor by its checkpoint name."""
        tied = self.model.config.tie_word_embeddings
        # transformers 5 calls Mixtral's blocks `mlp` in memory, as the other MoE models'.
        block = ".block_sparse_moe." if self.model.config.model_type == "mixtral" else ".mlp."
        for name, tensor in self.model.state_dict().items():
            if not (tied and name == "lm_head.weight"):
                yield name.replace(".mlp.", block), tensor

    def score(self, token_ids: list[int]) -> Tensor:
        """Log-prob of every token after the first: float32 [len(token_ids) - 1]."""
        return log_probs(self.model, token_ids)


def log_probs(model: torch.nn.Module, token_ids: list[int]) -> Tensor:
    """Log-prob of every token after the first under transformers: float32 [len(token_ids) - 1]."""
    ids = torch.tensor([token_ids], device=model.device)
    with torch.no_grad():
        logits = model(ids).logits[0, :-1].float()
    return logits.log_softmax(-1).gather(1, ids[0, 1:, None])[:, 0]
