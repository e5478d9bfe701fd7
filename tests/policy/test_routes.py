"""Routes on the host: their sizes, one copy of a prompt's for a group, and where they come to stand in a row."""

import pickle

import numpy as np
import pytest

from pivotrl.policy.architecture import Architecture
from pivotrl.policy.packing import Segment
from pivotrl.policy.router_replay import check
from pivotrl.policy.routes import Routes, lay, of_group, smallest_type

LAYERS, TOP_K = 3, 2


def numbered(first: int, tokens: int) -> np.ndarray:
    """Routes [tokens, 3, 2] of which each tells its token, layer and place."""
    count = tokens * LAYERS * TOP_K
    return np.arange(first * LAYERS * TOP_K, first * LAYERS * TOP_K + count, dtype=np.uint8).reshape(-1, LAYERS, TOP_K)


def test_a_row_holds_the_routes_of_its_segments() -> None:
    """Prompt once, its two responses behind it, a sample cut in two, one without routes, and padding."""
    prompt = numbered(0, 4)
    routes = [
        Routes(prompt, numbered(10, 2)),
        Routes(prompt, numbered(20, 3)),
        None,
        Routes(numbered(30, 2)[:1], numbered(32, 2)),  # the end of its prompt is not known
    ]
    segments = [
        Segment(0, 0, 0, 4),
        Segment(0, 4, 4, 2),
        Segment(1, 4, 6, 4),  # one more than the engine ran
        Segment(2, 0, 10, 2),
        Segment(3, 0, 12, 3),
        Segment(3, 3, 16, 1),
    ]
    row = lay(segments, routes, [4, 4, 2, 2], [0, 2], (20, TOP_K))
    assert row.dtype == np.int16 and row.shape == (20, 2, TOP_K)
    expected = [0, 1, 2, 3, 10, 11, 20, 21, 22, None, None, None, 30, None, 32, None, 33, None, None, None]
    for token, number in enumerate(expected):
        rest = np.full((2, TOP_K), -1) if number is None else numbered(number, 1)[0][[0, 2]]
        assert (row[token] == rest).all(), (token, row[token], rest)


def test_a_group_brings_its_prompt_s_routes_once() -> None:
    """In memory, and through the pickles that ranks exchange."""
    rows = [np.zeros((1000 + 5, 4, 8), np.uint8), *(np.ones((7, 4, 8), np.uint8) for _ in range(15))]
    group = of_group(rows, 1000)
    assert all(routes.prompt is group[0].prompt for routes in group)
    assert [len(routes.response) for routes in group] == [5, *[7] * 15]
    assert len(pickle.dumps(group)) < 1.2 * (1000 + 5 + 15 * 7) * 4 * 8


def test_numbers_of_many_experts() -> None:
    assert smallest_type(256) == np.uint8 and smallest_type(257) == np.int16
    (wide,) = of_group([np.full((3, 1, 2), 384, np.uint16)], 2)  # vLLM's type above 256, which torch cannot index by
    assert wide.prompt.dtype == np.int16 and (wide.response == 384).all()


@pytest.mark.parametrize(
    ("mode", "experts", "device", "said"),
    [
        ("engine", 8, "cpu", "set it to trainer"),
        ("engine", 0, "cuda", "has no experts: set it to none"),
        ("trainer", 0, "cpu", "has no experts: set it to none"),
    ],
)
def test_what_cannot_be_replayed_is_refused(mode: str, experts: int, device: str, said: str) -> None:
    arch = Architecture("some", 1, 8, 1, 1, 8, 8, 8, 8, 1e-6, 1e4, None, False, False, False, experts=experts)
    with pytest.raises(ValueError, match=f"training.router_replay is {mode}.*{said}"):
        check(mode, arch, device)
    check("none", arch, device)
