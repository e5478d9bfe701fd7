"""Every layout, packing, recomputation and optimizer gives transformers' float64 gradient, to float32's rounding.

docs/parity.md is the table that `python -m tests.policy.parity --write` makes of the same cases.
"""

from itertools import combinations, product

import pytest

from tests.policy import parity
from tests.policy.parity_cases import CASES, FIRST, WRONG, Case

pytestmark = pytest.mark.slow

RANKS = (1, 2, 4)
DIMENSIONS = {
    "tensor": (1, 2),
    "pipeline": (1, 2),
    "virtual_pipeline": (1, 2),
    "expert": (1, 2, 4),
    "expert_tensor": (1, 2),
    "data": (1, 2, 4),
    "packing": ("plain", "prompt_once"),
    "recompute": ("none", "selective", "full"),
    "distributed": (False, True),
}


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, float]]:
    """All cases, one launch for each number of ranks; one rank first, which the others are held against."""
    folder = tmp_path_factory.mktemp("parity")
    parity.make_references(folder)
    assert CASES[0] == FIRST
    everything = [result for ranks in RANKS for result in parity.run(folder, parity.of_ranks(ranks, CASES + WRONG))]
    return {name_of(case): errors for case, errors in everything}


def name_of(case: Case) -> str:
    return " ".join([*parity.labels(case), case.fault])


@pytest.mark.parametrize("case", CASES, ids=name_of)
def test_layout_gives_the_reference(results: dict, case: Case) -> None:
    errors = results[name_of(case)]
    assert parity.over_the_bar(case, errors) == {}
    if case.dtype == "float32" and case.ranks > 1:
        assert "to_first" in errors


@pytest.mark.parametrize("case", WRONG, ids=lambda case: case.fault)
def test_a_mistake_shows_in_the_gradient(results: dict, case: Case) -> None:
    errors = results[name_of(case)]
    assert errors["grads"] > 1e-2, "four orders of magnitude above the bar"


def test_page_lists_the_cases() -> None:
    said = "run `python -m tests.policy.parity --write`"
    assert parity.listed(parity.PAGE.read_text()) == [parity.labels(case) for case in CASES], said


def values_of(case: Case) -> dict[str, object]:
    sizes = {key: case.parallel.get(key, 1) for key in tuple(DIMENSIONS)[:5]}
    sizes["data"] = case.ranks // (sizes["tensor"] * sizes["pipeline"])
    return sizes | {key: getattr(case, key) for key in ("packing", "recompute", "distributed")}


def possible_layouts() -> list[dict[str, int]]:
    """Sizes that fit one, two or four ranks."""
    found = []
    for ranks in RANKS:
        for sizes in product(*(DIMENSIONS[key] for key in tuple(DIMENSIONS)[:5])):
            tensor, stages, chunks, expert, expert_tensor = sizes
            fits = ranks % (tensor * stages) == 0 and ranks % (expert * expert_tensor * stages) == 0
            if fits and (chunks == 1 or stages > 1):
                found.append(dict(zip(DIMENSIONS, sizes, strict=False)) | {"data": ranks // (tensor * stages)})
    return found


def test_cases_hold_every_pair_of_values() -> None:
    """Of any two dimensions, each pair of values that fits at most four ranks is in a float32 case."""
    layouts = possible_layouts()
    covered = [values_of(case) for case in CASES if case.dtype == "float32"]
    missing = [
        {one: x, other: y}
        for one, other in combinations(DIMENSIONS, 2)
        for x, y in product(DIMENSIONS[one], DIMENSIONS[other])
        if any(layout.get(one, x) == x and layout.get(other, y) == y for layout in layouts)
        and not any(case[one] == x and case[other] == y for case in covered)
    ]
    assert missing == []
