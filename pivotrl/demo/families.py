"""Four kinds of questions that have nothing to do with the desk, to watch for forgetting.

Each has one right answer, compared exactly. A question is a lone user message: no system prompt, no tools.
"""

import random
from collections.abc import Callable, Mapping

LETTERS = "abcdefghij"

Family = Callable[[random.Random], tuple[str, str]]
"""Draws one (question, answer)."""


def _add(rng: random.Random) -> tuple[str, str]:
    a, b = rng.randrange(10, 50), rng.randrange(10, 50)
    return f"Add {a} and {b}", str(a + b)


def _sort(rng: random.Random) -> tuple[str, str]:
    letters = rng.sample(LETTERS, 5)
    return "Sort " + " ".join(letters), " ".join(sorted(letters))


def _reverse(rng: random.Random) -> tuple[str, str]:
    letters = [rng.choice(LETTERS) for _ in range(5)]
    return "Reverse " + " ".join(letters), " ".join(reversed(letters))


def _shift(rng: random.Random) -> tuple[str, str]:
    letters, by = [rng.choice(LETTERS) for _ in range(4)], rng.randrange(1, 4)
    moved = (LETTERS[(LETTERS.index(letter) + by) % len(LETTERS)] for letter in letters)
    return f"Shift {by} : " + " ".join(letters), " ".join(moved)


FAMILIES: dict[str, Family] = {
    "add": _add,
    "sort": _sort,
    "reverse": _reverse,
    "shift": _shift,
}
"""Family -> a function from a random generator to (question, answer)."""


def questions(
    family: str, count: int, seed: int | str, families: Mapping[str, Family] = FAMILIES
) -> list[tuple[str, str]]:
    """`count` (question, answer) pairs of one of `families`, the same for the same seed."""
    if family not in families:
        raise ValueError(f"family {family!r} does not exist: choose one of {', '.join(families)}")
    rng = random.Random(f"family/{family}/{seed}")
    return [families[family](rng) for _ in range(count)]
