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
    pairs: dict[int, int] = {}
    for start in sorted(range(len(candidates)), key=lambda index: len(candidates[index])):
        _augment(start, candidates, owner, pairs)
    return pairs


def _augment(start: int, candidates: list[list[int]], owner: dict[int, int], pairs: dict[int, int]) -> None:
    """Find a place for `start`, breadth first, and move the calls on the way to it; leave all as it is where there is
    none."""
    reached_from: dict[int, int] = {}
    queue = [start]
    for expected in queue:  # grows while it is walked
        for actual in candidates[expected]:
            if actual in reached_from:
                continue
            reached_from[actual] = expected
            if actual in owner:
                queue.append(owner[actual])
                continue
            free: int | None = actual
            while free is not None:
                expected = reached_from[free]
                owner[free] = expected
                free, pairs[expected] = pairs.get(expected), free
            return
