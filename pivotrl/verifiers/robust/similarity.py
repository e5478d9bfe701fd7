"""How alike two pieces of free text are.

similarity = 0.75 W + 0.25 T, where W is Dice's coefficient (Dice 1945; the F1 of one text's words against the
other's) over the stems of the words that carry a topic, counted, without stop words; and T is Dice's coefficient over
the sets of these stems' character trigrams, which forgives spelling. No synonyms, no order. Texts without such words
are compared by all their words. Text that is equal after Unicode NFKC, case folding and white space is 1.0 exactly.
"""

from collections import Counter
from collections.abc import Iterable

from pivotrl.verifiers.robust.facts import Said, said

DEFAULT_THRESHOLD = 0.5
"""Paraphrases that keep the content words are above, other topics below."""


def text_similarity(expected: str, actual: str) -> float:
    """In [0, 1]; 1.0 for identical text; symmetric."""
    return similarity(said(expected), said(actual))


def similarity(one: Said, other: Said) -> float:
    """`text_similarity` of texts that are taken apart."""
    if one.folded == other.folded:
        return 1.0
    left, right = one.content, other.content
    if not left and not right:
        left, right = Counter(one.folded.split()), Counter(other.folded.split())
    shared = sum((left & right).values())
    words = 2 * shared / max(left.total() + right.total(), 1)
    if not one.content and not other.content:
        grams, others = _trigrams(left), _trigrams(right)
    else:
        grams, others = _grams_of(one), _grams_of(other)
    return 0.75 * words + 0.25 * 2 * len(grams & others) / max(len(grams) + len(others), 1)


def _grams_of(text: Said) -> set[str]:
    if text.grams is None:
        text.grams = _trigrams(text.content)
    return text.grams


def _trigrams(words: Iterable[str]) -> set[str]:
    return {padded[at : at + 3] for word in words for padded in (f" {word} ",) for at in range(len(padded) - 2)}
