"""One string argument, compared as what it is; after trimming:

- a value of an enum exactly, but for its case where no two values of the enum differ by case alone;
- a value of a `format` by value (`robust.formats`);
- an identifier exactly: text without white space inside, or with a `pattern`, or that looks like code;
- a sum or another row of numbers and signs in its order, but for white space;
- text of one or two words (a name) but for its case and white space;
- free text, three words or more on both sides, by what it says (`robust.free_text`); of fewer than six it is rather a
  name or a title, in which one word of three is another one, and needs a similarity of 0.75.
"""

import re

from pivotrl.verifiers.base import Difference
from pivotrl.verifiers.robust.formats import same_in_format
from pivotrl.verifiers.robust.free_text import compare_text
from pivotrl.verifiers.robust.schema import Schema, enum_of
from pivotrl.verifiers.robust.shown import other

FREE_TEXT_WORDS = 3
"""Strings of at least as many words, on both sides, are free text."""
SHORT_WORDS, SHORT_THRESHOLD = 6, 0.75
"""Free text of fewer words, on either side, and the similarity that it needs at least."""

_SUM = re.compile(r"(?=[^\d]*\d)[\d\s.,+*/()%^=\u00d7\u00f7-]+")
_SUMMANDS = re.compile(r"[\d.]+|[^\s\d.]")
_CODE = re.compile(r"[{}<>|&;=\\^~`]|\w\(|\n[ \t]+\S|(?<!\S)--?[a-zA-Z]|\$[A-Za-z({]|::")
_QUERY = re.compile(r"(?:SELECT|INSERT|UPDATE|DELETE|WITH|CREATE)\b")
_LOOKED_AT = 5000
"""Characters that decide whether a string is code."""
_WORDS_PER_SIGN = 7
"""Prose has fewer signs of code than one in so many words."""


def compare_strings(expected: str, actual: str, schema: Schema, threshold: float) -> Difference | None:
    """The difference between two strings under a resolved schema; None where they are equivalent."""
    wanted, found = expected.strip(), actual.strip()
    if wanted == found:
        return None
    members = enum_of(schema)
    if members is not None:
        return None if _same_member(wanted, found, members) else other(expected, actual)
    form = schema.get("format")
    if isinstance(form, str):
        return None if same_in_format(form, wanted, found) else other(expected, actual)
    if "pattern" in schema:
        return other(expected, actual)
    if _SUM.fullmatch(wanted):
        same = _SUM.fullmatch(found) is not None and _SUMMANDS.findall(wanted) == _SUMMANDS.findall(found)
        return None if same else other(expected, actual)
    words, found_words = wanted.split(), found.split()
    if len(words) < 2:
        return other(expected, actual)
    if _looks_like_code(wanted, len(words)):
        return None if _lines(wanted) == _lines(found) else other(expected, actual)
    if len(words) >= FREE_TEXT_WORDS and len(found_words) >= FREE_TEXT_WORDS:
        short = min(len(words), len(found_words)) < SHORT_WORDS
        return compare_text(wanted, found, max(threshold, SHORT_THRESHOLD) if short else threshold)
    same = [word.casefold() for word in words] == [word.casefold() for word in found_words]
    return None if same else other(expected, actual)


def _same_member(wanted: str, found: str, members: list) -> bool:
    """Whether both are one member of an enum; whatever their case, where no two members differ by case alone."""
    names = [member.strip() for member in members if isinstance(member, str)]
    folded = {name.casefold() for name in names}
    return len(folded) == len(set(names)) and wanted.casefold() == found.casefold() and found.casefold() in folded


def _looks_like_code(text: str, words: int) -> bool:
    """Whether a string is a command, a query or a program rather than prose, by its share of operators, flags, calls
    and indented lines."""
    signs = len(_CODE.findall(text[:_LOOKED_AT]))
    return _WORDS_PER_SIGN * signs >= min(words, _LOOKED_AT) or _QUERY.match(text) is not None


def _lines(text: str) -> list[str]:
    return [line.rstrip() for line in text.splitlines()]
