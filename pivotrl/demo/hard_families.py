"""Six kinds of questions as those of `families`, with lengths and sizes that vary, so that a tiny model never has them
all right: a little forgetting shows as points, not as nothing."""

import random

from pivotrl.demo.families import LETTERS, Family

KEYS, DIGITS = LETTERS, "0123456789"


def _add(rng: random.Random) -> tuple[str, str]:
    a, b = rng.randrange(10, 100), rng.randrange(10, 100)
    return f"Add {a} and {b}", str(a + b)


def _subtract(rng: random.Random) -> tuple[str, str]:
    small, large = sorted((rng.randrange(10, 100), rng.randrange(10, 100)))
    return f"Subtract {small} from {large}", str(large - small)


def _sort(rng: random.Random) -> tuple[str, str]:
    letters = rng.sample(LETTERS, rng.randrange(4, 8))
    return "Sort " + " ".join(letters), " ".join(sorted(letters))


def _reverse(rng: random.Random) -> tuple[str, str]:
    letters = [rng.choice(LETTERS) for _ in range(rng.randrange(4, 8))]
    return "Reverse " + " ".join(letters), " ".join(reversed(letters))


def _shift(rng: random.Random) -> tuple[str, str]:
    letters, by = [rng.choice(LETTERS) for _ in range(rng.randrange(3, 7))], rng.randrange(1, 5)
    moved = (LETTERS[(LETTERS.index(letter) + by) % len(LETTERS)] for letter in letters)
    return f"Shift {by} : " + " ".join(letters), " ".join(moved)


def _lookup(rng: random.Random) -> tuple[str, str]:
    table = {key: rng.choice(DIGITS) for key in rng.sample(KEYS, rng.randrange(3, 6))}
    key = rng.choice(sorted(table))
    return f"Look up {key} in " + " ".join(f"{k} {v}" for k, v in table.items()), table[key]


HARD_FAMILIES: dict[str, Family] = {
    "add": _add,
    "subtract": _subtract,
    "sort": _sort,
    "reverse": _reverse,
    "shift": _shift,
    "lookup": _lookup,
}
"""Family -> a function from a random generator to (question, answer), as `FAMILIES`."""
