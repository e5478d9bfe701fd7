"""The similarity that NeMo-Gym computes with `difflib.SequenceMatcher(None, a, b).ratio()`: the same numbers, in time
that what a model wrote cannot blow up.

The definition (Ratcliff and Obershelp's, as Python's difflib has it): take the longest block that both texts share, the
first in `a` and then in `b` among equals, and go on to the left and to the right of it; the ratio is 2 M / T, with M
characters in blocks and T in all. Where `b` has 200 characters or more, those that make up over 1 % of it are popular:
a block is found by its other characters, and grows over popular ones on both sides; where there is no other, it grows
from the start.

difflib searches every pair of remainders anew, which is cubic. Here the runs of equal characters are listed once and
taken by length, a run that a taken block cuts coming back as its pieces: n log n in the number of pairs of equal
characters, which is bounded by MOST_PAIRS.
"""

import math
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Sequence

MOST_PAIRS = 1_000_000
"""Pairs of equal characters (popular ones left out) of two texts that are compared. Two texts of 2,000 characters are
always below, code of 40,000 usually; the worst texts take about a second."""
SHORTEST_WITH_POPULAR = 200
"""Characters of `b` from which on there are popular ones."""

Rectangle = tuple[int, int, int, int]
"""`a[start:stop]` against `b[start:stop]`: what is still to be compared."""


def similarity(a: str, b: str, marks: Sequence[float] | None = None) -> float | None:
    """difflib's ratio of two texts, from 0 to 1; not symmetric.

    Args:
        marks: the ratios that matter. Given, the result is only on the right side of each: `>=` a mark where the ratio
            is. None: the ratio itself.

    Returns:
        None where the texts have more than MOST_PAIRS pairs of equal characters, and nothing simpler tells.
    """
    if a == b:
        return 1.0
    total = len(a) + len(b)
    settled = _settled(marks, total)
    most = min(len(a), len(b))
    if settled(0, most):
        return 0.0
    counts_a, counts_b = Counter(a), Counter(b)
    most = sum(min(count, counts_b[char]) for char, count in counts_a.items() if char in counts_b)
    if settled(0, most):
        return 0.0
    if len(b) >= SHORTEST_WITH_POPULAR:
        limit = len(b) // 100 + 1
        counts_b = {char: count for char, count in counts_b.items() if count <= limit}
    rare = counts_a.keys() & counts_b.keys()
    if sum(counts_a[char] * counts_b[char] for char in rare) > MOST_PAIRS:
        return None
    return 2.0 * _matched(a, b, _runs(a, b, rare), most, settled) / total


def at_least(a: str, b: str, threshold: float) -> bool | None:
    """Whether difflib's ratio reaches `threshold`; None as for `similarity`."""
    found = similarity(a, b, (threshold,))
    return None if found is None else found >= threshold


def _settled(marks: Sequence[float] | None, total: int) -> Callable[[int, int], bool]:
    """A function of the least and the most characters in blocks: do they say what was asked?"""
    if marks is None:
        return lambda least, most: least == most
    needs = [_needed(mark, total) for mark in marks if mark <= 1]
    return lambda least, most: not any(least < need <= most for need in needs)


def _needed(mark: float, total: int) -> int:
    """The least M with 2 M / total >= mark, in floats as difflib computes it."""
    count = max(0, math.ceil(max(mark, 0.0) * total / 2) - 1)
    while 2.0 * count / total < mark:
        count += 1
    return count


def _runs(a: str, b: str, rare: set[str]) -> dict[int, list[tuple[int, int]]]:
    """All longest runs of equal rare characters, as length -> [(start in a, start in b)]."""
    where: dict[str, list[int]] = {char: [] for char in rare}
    # What is not rare equals nothing, and so does the end, which stands before the first character as well.
    chars_a: list[str | None] = [char if char in rare else None for char in a] + [None]
    chars_b: list[str | bool] = [char if char in rare else False for char in b] + [False]
    for index, char in enumerate(b):
        if char in rare:
            where[char].append(index)
    runs: dict[int, list[tuple[int, int]]] = {}
    for i, char in enumerate(a):
        before = chars_a[i - 1]
        for j in where.get(char, ()):
            if chars_b[j - 1] != before:
                length = 1
                while chars_a[i + length] == chars_b[j + length]:
                    length += 1
                runs.setdefault(length, []).append((i, j))
    return runs


def _matched(
    a: str, b: str, runs: dict[int, list[tuple[int, int]]], most: int, settled: Callable[[int, int], bool]
) -> int:
    """Characters in blocks, or as many as are known when `settled` (`most`: no more than that)."""
    matched, open_ = 0, min(len(a), len(b))
    rest: list[Rectangle] = [(0, len(a), 0, len(b))]  # in the order of both texts, none with an empty side
    for length in range(max(runs, default=0), 0, -1):
        for i, j in sorted(runs.pop(length, ())):
            shift = j - i
            at = max(bisect_right(rest, (i, len(a) + 1)) - 1, 0)
            while at < len(rest) and rest[at][0] < i + length:
                a0, a1, b0, b1 = rest[at]
                start, stop = max(i, a0, b0 - shift), min(i + length, a1, b1 - shift)
                if stop - start < length:  # cut: comes back among those of its length now
                    if start < stop:
                        runs.setdefault(stop - start, []).append((start, start + shift))
                    at += 1
                    continue
                while start > a0 and start + shift > b0 and a[start - 1] == b[start + shift - 1]:
                    start -= 1
                stop += _common_prefix(a, b, stop, a1, stop + shift, b1)
                left = (a0, start, b0, start + shift)
                right = (stop, a1, stop + shift, b1)
                rest[at : at + 1] = [part for part in (left, right) if _size(part)]
                matched += stop - start
                open_ += _size(left) + _size(right) - _size((a0, a1, b0, b1))
                if settled(matched, min(most, matched + open_)):
                    return matched
                break
    return matched + sum(_common_prefix(a, b, a0, a1, b0, b1) for a0, a1, b0, b1 in rest)


def _size(part: Rectangle) -> int:
    """The most characters that blocks inside can have."""
    a0, a1, b0, b1 = part
    return min(a1 - a0, b1 - b0)


def _common_prefix(a: str, b: str, a0: int, a1: int, b0: int, b1: int) -> int:
    """Length of the common start of `a[a0:a1]` and `b[b0:b1]`."""
    most = min(a1 - a0, b1 - b0)
    length = 0
    while length < most and a[a0 + length] == b[b0 + length]:
        length += 1
    return length
