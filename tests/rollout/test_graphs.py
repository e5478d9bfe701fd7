"""Sizes of CUDA graphs."""

import pytest

from pivotrl.rollout.graphs import capture_sizes


@pytest.mark.parametrize(
    ("max_num_seqs", "group", "expected"),
    [
        (256, 16, [1, 2, 4, 8, 16, 32, 64, 128, 256]),
        (100, 12, [1, 2, 4, 8, 12, 16, 32, 64, 100]),
        (3, 16, [1, 2, 3]),
        (1, 1, [1]),
    ],
)
def test_every_number_of_sequences_has_a_graph(max_num_seqs: int, group: int, expected: list[int]) -> None:
    assert capture_sizes(max_num_seqs, group) == expected
