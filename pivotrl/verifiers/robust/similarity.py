"""How alike two pieces of free text are."""

DEFAULT_THRESHOLD = 0.5


def text_similarity(expected: str, actual: str) -> float:
    """In [0, 1]; 1.0 for identical text; symmetric."""
    wanted, found = expected.casefold().split(), actual.casefold().split()
    if wanted == found:
        return 1.0
    shared = len(set(wanted) & set(found))
    return 2 * shared / (len(set(wanted)) + len(set(found)))
