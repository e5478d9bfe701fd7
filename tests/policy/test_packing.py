"""Packing: nothing lost, nothing twice, equally many micro-batches on every rank."""

import random

import pytest
import torch

from pivotrl.policy.packing import Sample, assign, pack, partition

CPU = torch.device("cpu")


def random_samples(count: int, seed: int = 0) -> list[Sample]:
    draw = random.Random(seed)
    return [
        Sample(
            [draw.randrange(1, 99) for _ in range(draw.randint(1, 40))],
            [draw.randrange(1, 99) for _ in range(draw.randint(0, 9))],
        )
        for _ in range(count)
    ]


@pytest.mark.parametrize("num_ranks", [1, 2, 3, 8])
@pytest.mark.parametrize("count", [0, 1, 5, 64])
def test_every_sample_is_on_exactly_one_rank_and_ranks_agree_on_the_count(count: int, num_ranks: int) -> None:
    samples = random_samples(count)
    ranks = assign(samples, 64, num_ranks)
    assert len({len(mine) for mine in ranks}) == 1, "ranks would wait for each other for ever"
    assert len(ranks[0]) >= 1
    placed = [index for mine in ranks for bin_ in mine for index in bin_]
    assert sorted(placed) == list(range(count))


def test_a_bin_keeps_the_budget_unless_one_sample_alone_breaks_it() -> None:
    lengths = [30, 5, 64, 200, 31, 1, 33]
    bins = partition(lengths, 64)
    for members in bins:
        assert sum(lengths[i] for i in members) <= 64 or len(members) == 1
    assert [3] in bins
    assert len(bins) == 4, "30+33, 64, 200 and 31+5+1 fit in four"


def test_load_is_balanced_over_ranks() -> None:
    samples = [Sample([1] * 60, [1] * 4) for _ in range(8)] + [Sample([1] * 8, [1] * 2) for _ in range(8)]
    ranks = assign(samples, 64, 2)
    load = [sum(len(samples[i]) for bin_ in mine for i in bin_) for mine in ranks]
    assert max(load) - min(load) <= 64


def test_logit_index_points_at_the_token_before_each_response_token() -> None:
    samples = [Sample([10, 11, 12], [13, 14]), Sample([20], [21, 22, 23]), Sample([30, 31], [])]
    batch = pack(samples, [0, 1, 2], 8, CPU)
    assert batch.input_ids.shape == (1, 16), "11 tokens, padded to a multiple of 8"
    assert batch.input_ids[0, : batch.cu_seqlens[3]].tolist() == [10, 11, 12, 13, 14, 20, 21, 22, 23, 30, 31]
    assert batch.cu_seqlens.tolist() == [0, 5, 9, 11, 16]
    assert batch.position_ids[0].tolist() == [0, 1, 2, 3, 4, 0, 1, 2, 3, 0, 1, 0, 1, 2, 3, 4]
    assert batch.target_N.tolist() == [13, 14, 21, 22, 23]
    assert batch.input_ids[0, batch.logit_index_N + 1].tolist() == batch.target_N.tolist()
    assert batch.sample_N.tolist() == [0, 0, 1, 1, 1]
    assert batch.max_seqlen == 5


def test_a_dummy_is_padding_only() -> None:
    batch = pack([], [], 4, CPU)
    assert batch.input_ids.tolist() == [[0, 0, 0, 0]]
    assert batch.cu_seqlens.tolist() == [0, 4]
    assert batch.target_N.numel() == 0
