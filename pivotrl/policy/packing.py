"""Samples become packed micro-batches: rows of trees, each a prompt with the responses that share it.

Legend: T = tokens of a micro-batch (padding included), N = targets of a micro-batch: its response tokens, where no mask
leaves some out.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from pivotrl.policy.routes import Routes
from pivotrl.policy.tree_attention import Tree

Piece = tuple[int, ...]
"""Indices of samples with one prompt, of which their micro-batch holds one copy."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One sampled action behind its prompt, as the trainer sees it."""

    prompt_ids: Sequence[int]
    response_ids: Sequence[int]
    sampler_log_probs: Sequence[float] = ()
    """The engine's log-prob of each target; empty where nobody sampled (scoring, imitation)."""
    advantage: float = 0.0
    routes: Routes | None = field(default=None, compare=False)
    """The experts that the engine sent its tokens to, where they are to be replayed."""
    stands_for: float = 1.0
    """Samples that it is in the loss's denominator: more than 1 where the rest of its group was not sampled."""
    mask: Sequence[bool] | None = None
    """Which response tokens are targets, at least one; None: all. The others are only read, as the prompt is: an
    expert's whole trajectory is one sample, whose targets are what the assistant wrote."""

    @property
    def targets(self) -> Sequence[int]:
        """Places of the targets in the response."""
        if self.mask is None:
            return range(len(self.response_ids))
        return [place for place, is_target in enumerate(self.mask) if is_target]

    def __len__(self) -> int:
        return len(self.prompt_ids) + len(self.response_ids)


@dataclass(frozen=True, slots=True)
class Segment:
    """Tokens [start, start + length) of a row are tokens [position, position + length) of a sample's prompt and
    response, end to end. A shared prompt is one segment, which names its first sample."""

    sample: int
    position: int
    start: int
    length: int


@dataclass(frozen=True, slots=True)
class MicroBatch:
    """One packed row of trees."""

    input_ids: Tensor
    """[1, T] int64. A response's last token is the input of nothing and left out."""
    position_ids: Tensor
    """[1, T] int64: from 0 in every prompt, and from the prompt's length in each of its responses."""
    trees: tuple[Tree, ...]
    """They cover the row; the padding is a last tree without responses."""
    segments: tuple[Segment, ...]
    """In the order of the row. The padding is in none."""
    logit_index_N: Tensor
    """int64: the token of the row whose logits predict target n. The end of a prompt predicts the first token of each
    of its responses."""
    target_N: Tensor
    """int64: the token that is target n."""
    sample_N: Tensor
    """int64, rising: index of token n's sample in the caller's list."""


def pack(samples: Sequence[Sample], pieces: Sequence[Piece], multiple_of: int, device: torch.device) -> MicroBatch:
    """Lay the pieces end to end, padded with zeros to a multiple of `multiple_of` tokens.

    No pieces at all give a dummy of padding only: it takes part in every collective and weighs nothing.
    """
    tokens: list[int] = []
    positions: list[int] = []
    trees: list[Tree] = []
    segments: list[Segment] = []
    logits: dict[int, list[int]] = {}

    def lay(sample: int, ids: Sequence[int], position: int) -> None:
        if len(ids):
            segments.append(Segment(sample, position, len(tokens), len(ids)))
            tokens.extend(ids)
            positions.extend(range(position, position + len(ids)))

    for piece in pieces:
        start, prompt = len(tokens), samples[piece[0]].prompt_ids
        assert len(prompt), "a prompt has at least one token: its last one predicts the first of the response"
        lay(piece[0], prompt, 0)
        for index in piece:
            first, inputs = len(tokens), samples[index].response_ids[:-1]
            lay(index, inputs, len(prompt))
            predicting = [start + len(prompt) - 1, *range(first, len(tokens))]
            logits[index] = [predicting[place] for place in samples[index].targets]
        trees.append(Tree(start, len(prompt), tuple(len(samples[index].response_ids) - 1 for index in piece)))
    padding = -len(tokens) % multiple_of if tokens else multiple_of
    if padding:
        trees.append(Tree(len(tokens), padding, ()))
        tokens.extend([0] * padding)
        positions.extend(range(padding))

    def row(values: Sequence[int]) -> Tensor:
        return torch.tensor(values, dtype=torch.int64, device=device)

    placed = sorted(logits)
    return MicroBatch(
        input_ids=row(tokens)[None],
        position_ids=row(positions)[None],
        trees=tuple(trees),
        segments=tuple(segments),
        logit_index_N=row([token for index in placed for token in logits[index]]),
        target_N=row([samples[index].response_ids[place] for index in placed for place in samples[index].targets]),
        sample_N=row([index for index in placed for _ in logits[index]]),
    )
