"""What a tree of samples costs to train on, in floating-point operations."""

from collections.abc import Sequence
from dataclasses import dataclass

from pivotrl.policy.architecture import Architecture


@dataclass(frozen=True, slots=True)
class Cost:
    """FLOPs of forward and backward together, of all ranks that share the model."""

    token: float
    """Of a token of the trunk in the linear layers: three times the forward pass."""
    pair: float
    """Of one query that sees one key, in all layers: 3.5 times the forward pass, whose scores flash attention makes
    again."""
    response: float
    """Of a response token in the head: four times the forward pass, whose logits are made again."""

    @classmethod
    def of(cls, arch: Architecture) -> "Cost":
        """2 FLOPs for each weight that a token meets, and 4 head_dim for each head and pair (scores, and their sum)."""
        attention = arch.hidden * arch.head_dim * (2 * arch.heads + 2 * arch.kv_heads)
        mlp = 3 * arch.hidden * arch.ffn
        if arch.experts:
            mlp = arch.hidden * arch.experts + arch.top_k * 3 * arch.hidden * arch.expert_ffn
        return cls(
            token=3 * 2 * arch.layers * (attention + mlp),
            pair=3.5 * 4 * arch.layers * arch.heads * arch.head_dim,
            response=4 * 2 * arch.hidden * arch.vocab,
        )

    def of_tree(self, prompt: int, responses: Sequence[int]) -> float:
        """Of a prompt once and its responses, given their lengths in tokens. A response's last token is no input."""
        tokens, pairs = trunk_tokens(prompt, responses), prompt * (prompt + 1) / 2
        for length in responses:
            pairs += (length - 1) * (prompt + length / 2)
        return self.token * tokens + self.pair * pairs + self.response * sum(responses)


def trunk_tokens(prompt: int, responses: Sequence[int]) -> int:
    """Tokens that go through the layers for a prompt once and its responses (each at least one token long)."""
    return prompt + sum(responses) - len(responses)
