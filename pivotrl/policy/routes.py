"""Which experts every token went to, kept small on the host, and laid over a micro-batch. Imports no Megatron.

Legend: T = tokens of a micro-batch's row, L = layers of the model, M = layers of this rank, K = experts of a token.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from pivotrl.policy.packing import Segment


@dataclass(frozen=True, slots=True)
class Routes:
    """The experts that one sample's tokens went to: integer arrays [tokens, L, K].

    Where they end early, or are empty, the tokens behind have no route. The engine gives none for the last token that
    it sampled, as it never ran it. Samples of one group hold one array of their prompt's routes between them.
    """

    prompt: np.ndarray
    """Of the first tokens of the prompt, at most all."""
    response: np.ndarray
    """Of the first tokens of the response, at most all."""


def smallest_type(experts: int) -> np.dtype:
    """uint8 for at most 256 experts, else int16."""
    return np.dtype(np.uint8 if experts <= 256 else np.int16)


def of_group(rows: Sequence[np.ndarray], prompt_tokens: int) -> list[Routes]:
    """Routes of the samples of one prompt from what an engine says of each.

    Args:
        rows: for the first sample [prompt_tokens + response tokens, L, K]; for each other [response tokens, L, K].
        prompt_tokens: length of their prompt.
    """
    first, *others = (array.astype(np.int16) if array.dtype == np.uint16 else array for array in rows)
    prompt = first[:prompt_tokens]
    return [Routes(prompt, first[prompt_tokens:]), *(Routes(prompt, array) for array in others)]


def lay(
    segments: Sequence["Segment"],
    routes: Sequence[Routes | None],
    prompt_tokens: Sequence[int],
    layers: Sequence[int],
    shape: tuple[int, int],
) -> np.ndarray:
    """Routes along a micro-batch's row, -1 where a token has none: int16 [T, M, K].

    Args:
        segments: which tokens of which samples the row has.
        routes: of every sample of the batch.
        prompt_tokens: prompt length of every sample.
        layers: indices of this rank's layers, from 0.
        shape: (T, K).
    """
    row_TMK = np.full((shape[0], len(layers), shape[1]), -1, np.int16)
    for segment in segments:
        known, prompt = routes[segment.sample], prompt_tokens[segment.sample]
        if known is None:
            continue
        assert len(known.prompt) <= prompt, "routes of more tokens than the prompt has"
        for part, offset in ((known.prompt, 0), (known.response, prompt)):
            begin = max(segment.position, offset)
            end = min(segment.position + segment.length, offset + len(part))
            if begin < end:
                at = segment.start - segment.position
                row_TMK[at + begin : at + end] = part[begin - offset : end - offset][:, layers]
    return row_TMK
