"""The largest pairing of expected with actual calls."""


def maximum_matching(candidates: list[list[int]]) -> dict[int, int]:
    """Maximum bipartite matching by augmenting paths (Kuhn 1955).

    A fuzzy comparison lets one call fit several expected ones, so taking the first fit can leave a later one without.

    Args:
        candidates: for each expected call, the indices of the actual calls that fit it.

    Returns:
        A pairing of the largest possible size, as expected index -> actual index.
    """
    owner: dict[int, int] = {}

    def place(expected: int, tried: set[int]) -> bool:
        for actual in candidates[expected]:
            if actual not in tried:
                tried.add(actual)
                if actual not in owner or place(owner[actual], tried):
                    owner[actual] = expected
                    return True
        return False

    for expected in sorted(range(len(candidates)), key=lambda index: len(candidates[index])):
        place(expected, set())
    return {expected: actual for actual, expected in owner.items()}
