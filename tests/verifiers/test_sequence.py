import difflib
import random
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pivotrl.verifiers.sequence import MOST_PAIRS, at_least, similarity

RARE = [chr(0x4E00 + index) for index in range(20_000)]


def definition(a, b):
    return difflib.SequenceMatcher(None, a, b).ratio()


def edited(text, rng, edits):
    chars = list(text)
    for _ in range(edits):
        start = rng.randint(0, len(chars))
        stop = min(len(chars), start + rng.choice([0, 1, 3, 12]))
        chars[start:stop] = rng.choice([[], list("new"), chars[start:stop][::-1], chars[: rng.randint(0, 20)]])
    return "".join(chars)


@settings(max_examples=300, deadline=None)
@given(st.text("abc", max_size=40), st.text("abc", max_size=40), st.floats(-0.5, 1.5))
def test_short_texts_have_difflibs_ratio(a, b, mark):
    assert similarity(a, b) == definition(a, b)
    assert at_least(a, b, mark) == (definition(a, b) >= mark)


def test_texts_with_popular_characters_have_difflibs_ratio():
    rng = random.Random(0)
    ratios = set()
    for alphabet in ("ab", "abcdefgh", "etaoin shrdlu\n/-.0123456789ABCDEFGH", RARE[:150]):
        for size in (150, 199, 200, 201, 260, 600):
            for edits in (0, 1, 4, 20):
                a = "".join(rng.choices(alphabet, k=size))
                b = edited(a, rng, edits)
                for pair in ((a, b), (b, a), (a, "".join(rng.sample(b, len(b))))):
                    ratio = definition(*pair)
                    ratios.add(ratio)
                    assert similarity(*pair) == ratio
                    marks = (0.3, 0.9, ratio)
                    found = similarity(*pair, marks)
                    assert [found >= mark for mark in marks] == [ratio >= mark for mark in marks]
    assert len(ratios) > 100


def test_only_the_second_text_has_popular_characters():
    long, short = "ab" * 150 + "xyz", "xyz" + "ba" * 20
    assert similarity(long, short) == definition(long, short)
    assert similarity(short, long) == definition(short, long)
    assert similarity(short, long) != similarity(long, short)


@pytest.mark.parametrize("a, b, ratio", [("", "", 1), ("", "a", 0), ("a", "", 0), ("a" * 500, "a" * 500, 1)])
def test_simple_texts(a, b, ratio):
    assert similarity(a, b) == ratio
    assert at_least(a, b, 0.0) and at_least(a, b, -1.0)
    assert not at_least(a, b, 1.01)
    assert at_least(a, b, 1.0) == (ratio == 1)


def noisy(chars, every, rng):
    return "".join(rng.choice(RARE[:100]) if index % every == 0 else char for index, char in enumerate(chars))


def swapped(chars, every):
    chars = list(chars)
    for index in range(0, len(chars) - 1, every):
        chars[index], chars[index + 1] = chars[index + 1], chars[index]
    return "".join(chars)


CYCLE = "".join(RARE[:100]) * 98
HARD = {
    "one character": ("a" * 1_000_000, "a" * 999_999),
    "two in turn": ("ab" * 500_000, "ba" * 500_000),
    "no two alike": ("".join(RARE), "".join(reversed(RARE))),
    "pairs swapped": (swapped(RARE, 2), "".join(RARE)),
    "a hundred in any order": (noisy(CYCLE, 1, random.Random(1)), noisy(CYCLE, 1, random.Random(2))),
    "a cycle and its shift": (CYCLE[50:] + CYCLE[:50], CYCLE),
    "a cycle with noise": (noisy(CYCLE, 10, random.Random(3)), CYCLE),
    "a cycle with swaps": (swapped(CYCLE, 7), CYCLE),
    "one character, just not popular": ("a" * 5000, "a" * 199),
}


@pytest.mark.parametrize("case", HARD)
def test_the_worst_texts_take_about_a_second(case):
    a, b = HARD[case]
    start = time.process_time()
    assert at_least(a, b, 0.9) is not None
    assert time.process_time() - start < 2


def test_beyond_the_cap_only_what_is_simple_is_told():
    size = MOST_PAIRS // 199 + 1
    assert similarity("a" * (size - 1) + "b", "a" * 199) is not None
    assert similarity("a" * size + "b", "a" * 199) is None
    assert at_least("a" * size + "b", "a" * 199, 0.9) is False
    long = CYCLE + CYCLE
    assert at_least(long, long, 0.9) is True
    assert at_least(long, long[1:], 0.9) is None
