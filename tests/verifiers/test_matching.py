"""The largest pairing, against the one that trying all finds."""

from itertools import permutations

from hypothesis import given, settings
from hypothesis import strategies as st

from pivotrl.verifiers.matching import maximum_matching

GRAPHS = st.lists(st.lists(st.integers(0, 4), max_size=4, unique=True), max_size=5)


@settings(max_examples=200, deadline=None)
@given(GRAPHS)
def test_no_larger_pairing_exists(candidates):
    found = maximum_matching(candidates)
    assert len(set(found.values())) == len(found)
    assert all(actual in candidates[expected] for expected, actual in found.items())
    best = max(
        sum(place in candidates[index] for index, place in enumerate(order[: len(candidates)]))
        for order in permutations(range(5))
    )
    assert len(found) == best
