"""One string argument: an identifier exactly, a value of a known format by value, free text by what it says."""

from pivotrl.verifiers.base import Difference
from pivotrl.verifiers.robust.formats import same_in_format
from pivotrl.verifiers.robust.free_text import compare_text
from pivotrl.verifiers.robust.schema import Schema, enum_of
from pivotrl.verifiers.robust.shown import other

FREE_TEXT_WORDS = 3
"""Strings of at least as many words, on both sides, are free text."""


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
    if "pattern" in schema or not any(c.isspace() for c in wanted):
        return other(expected, actual)
    words, found_words = wanted.split(), found.split()
    if len(words) >= FREE_TEXT_WORDS and len(found_words) >= FREE_TEXT_WORDS:
        return compare_text(wanted, found, threshold)
    same = [word.casefold() for word in words] == [word.casefold() for word in found_words]
    return None if same else other(expected, actual)


def _same_member(wanted: str, found: str, members: list) -> bool:
    """Whether both are one member of an enum; whatever their case, where no two members differ by case alone."""
    names = [member.strip() for member in members if isinstance(member, str)]
    folded = {name.casefold() for name in names}
    return len(folded) == len(set(names)) and wanted.casefold() == found.casefold() and found.casefold() in folded
