"""Packing: the row says what the samples say, every token once, and each predicts what follows it in its sample."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from pivotrl.policy.balance import assign
from pivotrl.policy.cost import trunk_tokens
from pivotrl.policy.packing import MicroBatch, Sample, Segment, pack
from pivotrl.policy.tree_attention import visible
from tests.policy.groups import sample_lists

CPU = torch.device("cpu")
PACKINGS = st.sampled_from(["prompt_once", "plain"])


def text(sample: Sample) -> list[int]:
    return [*sample.prompt_ids, *sample.response_ids]


def rows_of(samples: list[Sample], packing: str, multiple_of: int = 1, budget: int = 64) -> list[MicroBatch]:
    (mine,) = assign(samples, budget, 1, packing).ranks
    return [pack(samples, pieces, multiple_of, CPU) for pieces in mine]


@settings(deadline=None)
@given(sample_lists(), PACKINGS, st.sampled_from([1, 2, 8]))
def test_segments_are_the_samples(samples: list[Sample], packing: str, multiple_of: int) -> None:
    for batch in rows_of(samples, packing, multiple_of):
        tokens, positions = batch.input_ids[0].tolist(), batch.position_ids[0].tolist()
        assert len(tokens) == len(positions) and len(tokens) % multiple_of == 0
        end = 0
        for segment in batch.segments:
            assert segment.start == end, "segments lie end to end, the padding behind them"
            end = segment.start + segment.length
            there = slice(segment.position, segment.position + segment.length)
            assert tokens[segment.start : end] == text(samples[segment.sample])[there]
            assert positions[segment.start : end] == list(range(there.start, there.stop))
        assert len(tokens) - end < multiple_of or not batch.segments, "no more padding than it takes"
        assert [(tree.start, tree.end) for tree in batch.trees][-1][1] == len(tokens)


@settings(deadline=None)
@given(sample_lists(), PACKINGS)
def test_a_logit_sees_what_precedes_its_target_in_the_sample_and_nothing_else(
    samples: list[Sample], packing: str
) -> None:
    found: dict[int, int] = {}
    for batch in rows_of(samples, packing):
        tokens, positions = batch.input_ids[0], batch.position_ids[0]
        sees_TT = visible(batch.trees, CPU)
        owners = batch.sample_N.tolist()
        assert owners == sorted(owners)
        for row, target, owner in zip(batch.logit_index_N.tolist(), batch.target_N.tolist(), owners, strict=True):
            number = found.get(owner, 0)
            found[owner] = number + 1
            before = text(samples[owner])[: len(samples[owner].prompt_ids) + number]
            seen = sees_TT[row].nonzero()[:, 0]
            assert positions[seen].tolist() == list(range(len(before)))
            assert tokens[seen].tolist() == before
            assert target == samples[owner].response_ids[number]
    assert found == {i: len(sample.response_ids) for i, sample in enumerate(samples) if sample.response_ids}


def test_a_row_of_two_trees() -> None:
    samples = [Sample([1, 2, 3], [4, 5]), Sample([9], [8, 7, 6]), Sample([1, 2, 3], [5]), Sample([1, 2, 3], [6, 7, 8])]
    batch = pack(samples, [(0, 2, 3), (1,)], 4, CPU)
    assert batch.input_ids.tolist() == [[1, 2, 3, 4, 6, 7, 9, 8, 7, 0, 0, 0]], "without the responses' last tokens"
    assert batch.position_ids.tolist() == [[0, 1, 2, 3, 3, 4, 0, 1, 2, 0, 1, 2]]
    assert batch.segments == tuple(
        Segment(*row) for row in [(0, 0, 0, 3), (0, 3, 3, 1), (3, 3, 4, 2), (1, 0, 6, 1), (1, 1, 7, 2)]
    )
    assert [tuple(tree) for tree in batch.trees] == [(0, 3, (1, 0, 2)), (6, 1, (2,)), (9, 3, ())]
    assert batch.sample_N.tolist() == [0, 0, 1, 1, 1, 2, 3, 3, 3]
    assert batch.target_N.tolist() == [4, 5, 8, 7, 6, 5, 6, 7, 8]
    assert batch.logit_index_N.tolist() == [2, 3, 6, 7, 8, 2, 2, 4, 5], "the prompt's end predicts three first tokens"


def test_a_dummy_is_padding_only() -> None:
    batch = pack([], [], 4, CPU)
    assert batch.input_ids.tolist() == [[0, 0, 0, 0]]
    assert batch.segments == () and [tuple(tree) for tree in batch.trees] == [(0, 4, ())]
    assert batch.target_N.numel() == 0


@pytest.mark.parametrize("packing", ["prompt_once", "plain"])
def test_a_response_of_one_token_is_no_input(packing: str) -> None:
    samples = [Sample([1, 2], [3]), Sample([1, 2], [4])]
    (batch,) = rows_of(samples, packing)
    assert batch.input_ids.tolist() == ([[1, 2]] if packing == "prompt_once" else [[1, 2, 1, 2]])
    assert trunk_tokens(2, [1, 1]) == trunk_tokens(2, [1]) == 2
