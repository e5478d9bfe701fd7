"""Do two pieces of free text say the same? Alike enough (`robust.similarity`), of a like
length, and nothing that matters changed.

A mismatch, however alike the texts are: a change of negation, of a number, of a date or time, of a name (a word with a
capital letter inside a sentence, an identifier, an address, a path, a quoted string), of one side of a pair of
opposites (before and after, accept and reject, refundable and nonrefundable), or of what is `from` and what is `to`.
What one text states and the other leaves out is a change. Not seen: roles told by word order alone.
"""

from typing import Any
from unicodedata import normalize

from pivotrl.verifiers.base import Difference
from pivotrl.verifiers.robust.facts import Said, fold, said_by_expert, said_by_model
from pivotrl.verifiers.robust.shown import other, shown
from pivotrl.verifiers.robust.similarity import DEFAULT_THRESHOLD, similarity
from pivotrl.verifiers.robust.words import CARRIERS, EXCHANGES, OPPOSITES, PREFIXES

LONGEST_COMPARED = 20_000
"""Characters of free text that are compared; longer text must be equal after folding."""
PADDING_TIMES, PADDING_WORDS = 3, 20
"""A text of more than three times the other's words and twenty is padded: stop words, which similarity passes over."""
MOST_FOLDED = 200_000
"""Characters of longer text that are folded for that; beyond them the texts must be equal as they are."""
MOST_DATES = 100
"""Dates of one text that are compared with an unstated year; more must be equal as written."""


def compare_text(expected: str, actual: Any, threshold: float = DEFAULT_THRESHOLD) -> Difference | None:
    """Why the texts are not equivalent; None where they are. Symmetric.

    Reasons: other_type, too_long, other_fact (something that matters changed), other_text (not alike enough).
    """
    if not isinstance(actual, str):
        return Difference("other_type", f"{shown(actual)} where text is expected")
    if expected == actual:
        return None
    if _size(expected) > LONGEST_COMPARED or _size(actual) > LONGEST_COMPARED:
        if max(len(expected), len(actual)) <= MOST_FOLDED and fold(expected) == fold(actual):
            return None
        return Difference("too_long", f"more than {LONGEST_COMPARED} characters of text, and not equal")
    wanted, found = said_by_expert(expected), said_by_model(actual)
    if wanted.folded == found.folded:
        return None
    if (change := _change(wanted, found) or _change(found, wanted)) is not None:
        return Difference("other_fact", f"{change}: {other(expected, actual).detail}")
    if max(wanted.size, found.size) > PADDING_TIMES * min(wanted.size, found.size) + PADDING_WORDS:
        return Difference("other_text", f"{found.size} words, expected about {wanted.size}")
    alike = similarity(wanted, found)
    if alike >= threshold:
        return None
    return Difference("other_text", f"similarity {alike:.2f} < {threshold:g}: {other(expected, actual).detail}")


def _size(text: str) -> int:
    """Characters after NFKC, which can make eighteen of one."""
    return len(text) if text.isascii() or len(text) > LONGEST_COMPARED else len(normalize("NFKC", text))


def _change(one: Said, two: Said) -> str | None:
    """What of the first text the second one changes; asked in both directions."""
    if one.negations != two.negations or (one.negated & two.plain) - two.negated - one.plain:
        return "another negation"
    if _numbers_differ(one, two):
        return "another number"
    if one.dates != two.dates and not _dates_agree(one, two):
        return "another date"
    if not one.marks <= two.marks:
        return "another identifier or time"
    if not one.names <= two.words:
        return "another name"
    if one.quotes and any(quote.replace("*", "") not in two.folded.replace("*", "") for quote in one.quotes):
        return "another quotation"
    if any(key in two.told and values.isdisjoint(two.told[key]) for key, values in one.told.items()):
        return "another number, measure or bound"
    if _opposed(one, two):
        return "the opposite"
    if any(
        (("to" if way == "from" else "from"), word) in two.ways and (way, word) not in two.ways
        for way, word in one.ways
    ):
        return "from and to"
    return "old and new" if _exchanged(one, two) else None


def _exchanged(one: Said, two: Said) -> bool:
    """Whether what is replaced in the one text is what replaces it in the other."""
    if EXCHANGES.isdisjoint(one.content) or EXCHANGES.isdisjoint(two.content):
        return False
    for way in ("for", "with", "into"):
        left = {word for kind, word in one.ways if kind == way and word not in CARRIERS}
        right = {word for kind, word in two.ways if kind == way and word not in CARRIERS}
        if left.isdisjoint(right) and not left.isdisjoint(two.plain) and not right.isdisjoint(one.plain):
            return True
    return False


def _numbers_differ(one: Said, two: Said) -> bool:
    if not one.numbers <= two.numbers | two.ones:
        return True
    return bool(one.ones - two.ones - two.numbers) and bool(two.ones - one.ones - one.numbers)


def _dates_agree(one: Said, two: Said) -> bool:
    """Every date of the first text is one of the second's, where a year that is not stated fits any."""
    if len(one.dates) > MOST_DATES or len(two.dates) > MOST_DATES:
        return one.dates <= two.dates
    return all(
        any(day[1:] == same[1:] and (day[0] == same[0] or not day[0] or not same[0]) for same in two.dates)
        for day in one.dates
    )


def _opposed(one: Said, two: Said) -> bool:
    for left, right in OPPOSITES:
        if (one.words & left and not one.words & right and two.words & right and not two.words & left) or (
            one.words & right and not one.words & left and two.words & left and not two.words & right
        ):
            return True
    only = one.content.keys() - two.content.keys()
    return any(
        prefix + stem in two.content and prefix + stem not in one.content for stem in only for prefix in PREFIXES
    )
