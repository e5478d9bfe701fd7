"""Sequences of many lengths become packed micro-batches, equally many on every data-parallel rank.

Legend: S = sequences, T = tokens of a micro-batch (padding included), N = response tokens of a micro-batch.
"""

import itertools
from collections.abc import Sequence as SequenceOf
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True, slots=True)
class Sample:
    """One sampled action behind its prompt, as the trainer sees it."""

    prompt_ids: SequenceOf[int]
    response_ids: SequenceOf[int]
    sampler_log_probs: SequenceOf[float] = ()
    """The engine's log-prob of each response token; empty where nobody sampled (scoring)."""
    advantage: float = 0.0

    def __len__(self) -> int:
        return len(self.prompt_ids) + len(self.response_ids)


@dataclass(frozen=True, slots=True)
class MicroBatch:
    """One packed row of sequences, each attending to itself only."""

    input_ids: Tensor
    """[1, T] int64."""
    position_ids: Tensor
    """[1, T] int64, from 0 in every sequence."""
    cu_seqlens: Tensor
    """[S + 1] int32, start of every sequence; the padding is a last sequence of its own."""
    max_seqlen: int
    logit_index_N: Tensor
    """int64: the position whose logits predict response token n."""
    target_N: Tensor
    """int64: response token n."""
    sample_N: Tensor
    """int64: index of token n's sample in the caller's list."""


def partition(lengths: SequenceOf[int], budget: int) -> list[list[int]]:
    """Indices of sequences in bins of at most `budget` tokens (first fit, longest first); a longer one is alone."""
    bins: list[list[int]] = []
    room: list[int] = []
    for index in sorted(range(len(lengths)), key=lambda i: (-lengths[i], i)):
        fit = next((b for b, free in enumerate(room) if free >= lengths[index]), None)
        if fit is None:
            bins.append([])
            room.append(budget)
            fit = len(bins) - 1
        bins[fit].append(index)
        room[fit] -= lengths[index]
    return bins


def assign(samples: SequenceOf[Sample], budget: int, num_ranks: int, multiple_of: int = 1) -> list[list[list[int]]]:
    """Micro-batches of sample indices for each data-parallel rank, equally many on each (an empty list is a dummy).

    Their number is a multiple of `multiple_of`: the interleaved pipeline schedule takes them in runs of PP.

    Every rank computes the same answer from the same samples, so that no rank waits in a collective for another.
    Bins are dealt heaviest first to the rank with the least tokens that still has a free place.
    """
    bins = partition([len(sample) for sample in samples], budget)
    weight = [sum(len(samples[i]) for i in members) for members in bins]
    per_rank = max(1, -(-len(bins) // num_ranks))
    per_rank += -per_rank % multiple_of
    ranks: list[list[list[int]]] = [[] for _ in range(num_ranks)]
    load = [0] * num_ranks
    for b in sorted(range(len(bins)), key=lambda b: (-weight[b], b)):
        rank = min((r for r in range(num_ranks) if len(ranks[r]) < per_rank), key=lambda r: (load[r], r))
        ranks[rank].append(sorted(bins[b]))
        load[rank] += weight[b]
    for mine in ranks:
        mine.extend([] for _ in range(per_rank - len(mine)))
    return ranks


def pack(samples: SequenceOf[Sample], indices: SequenceOf[int], multiple_of: int, device: torch.device) -> MicroBatch:
    """Lay the named samples end to end, padded with zeros to a multiple of `multiple_of` tokens.

    No samples at all give a dummy of padding only: it takes part in every collective and weighs nothing.
    """
    tokens: list[int] = []
    positions: list[int] = []
    starts = [0]
    logit_index: list[int] = []
    targets: list[int] = []
    owners: list[int] = []
    for index in indices:
        sample = samples[index]
        assert sample.prompt_ids, "a prompt has at least one token: its last one predicts the first of the response"
        first = starts[-1] + len(sample.prompt_ids) - 1
        logit_index.extend(range(first, first + len(sample.response_ids)))
        targets.extend(sample.response_ids)
        owners.extend([index] * len(sample.response_ids))
        tokens.extend([*sample.prompt_ids, *sample.response_ids])
        positions.extend(range(len(sample)))
        starts.append(len(tokens))
    padding = -len(tokens) % multiple_of if tokens else multiple_of
    if padding:
        tokens.extend([0] * padding)
        positions.extend(range(padding))
        starts.append(len(tokens))

    def row(values: list[int], dtype: torch.dtype = torch.int64) -> Tensor:
        return torch.tensor(values, dtype=dtype, device=device)

    return MicroBatch(
        input_ids=row(tokens)[None],
        position_ids=row(positions)[None],
        cu_seqlens=row(starts, torch.int32),
        max_seqlen=max(end - start for start, end in itertools.pairwise(starts)),
        logit_index_N=row(logit_index),
        target_N=row(targets),
        sample_N=row(owners),
    )
