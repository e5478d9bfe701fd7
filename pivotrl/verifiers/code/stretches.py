"""The smallest stretches that an edit changes, and the lines beside them, for files whose text is not known."""

from collections.abc import Iterator
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import lru_cache

from pivotrl.verifiers.code.edits import Edit

MOST_LINES = 60
"""Lines of a changed stretch that is taken apart: finding what is equal inside takes a time that may grow as the cube.
A longer one is compared whole, as are those after the first MOST_LINES_IN_ALL lines."""
MOST_LINES_IN_ALL = 1500


@dataclass(frozen=True)
class Stretch:
    """Text that is taken out, and what is put in its place: whole lines."""

    old: str
    new: str
    before: str
    """The nearest line before it that is not blank, its white space at the ends aside; empty: not known."""
    after: str
    line: int | None
    """1-based line of the file where it begins, if the edit says so."""


def blocks_of(edit: Edit) -> list[tuple[str, str, int | None]]:
    """(text before, text after, line in the file) of each stretch that the edit names, with the lines around it."""
    if edit.kind == "replace":
        return [(part.old, part.new, None) for part in edit.replacements]
    blocks = []
    for hunk in edit.hunks:
        line = hunk.start if hunk.old or hunk.start is None else hunk.start + 1  # lines added behind that line
        blocks.append(("\n".join(hunk.old), "\n".join(hunk.new), line))
    return blocks


@lru_cache(maxsize=8)
def stretches_of(edit: Edit) -> tuple[Stretch, ...]:
    """In the edit's order, without what is equal before and after."""
    stretches: list[Stretch] = []
    left = MOST_LINES_IN_ALL
    for old_text, new_text, line in blocks_of(edit):
        old = old_text.split("\n") if old_text else []
        new = new_text.split("\n") if new_text else []
        start, end = _equal_ends(old, new)
        left -= max(len(old), len(new)) - start - end
        for a, b, c, d in _changed(old, new, start, end, left < 0):
            before = next((text.strip() for text in reversed(old[:a]) if text.strip()), "")
            after = next((text.strip() for text in old[b:] if text.strip()), "")
            place = None if line is None else line + a
            stretches.append(Stretch("\n".join(old[a:b]), "\n".join(new[c:d]), before, after, place))
    return tuple(stretches)


def _changed(old: list[str], new: list[str], start: int, end: int, whole: bool) -> Iterator[tuple[int, int, int, int]]:
    """The bounds of what changes in `old` and in `new`."""
    left, right = old[start : len(old) - end], new[start : len(new) - end]
    if whole or max(len(left), len(right)) > MOST_LINES:
        yield start, len(old) - end, start, len(new) - end
        return
    for tag, a, b, c, d in SequenceMatcher(None, left, right, autojunk=False).get_opcodes():
        if tag != "equal":
            yield start + a, start + b, start + c, start + d


def _equal_ends(old: list[str], new: list[str]) -> tuple[int, int]:
    shorter = min(len(old), len(new))
    start = next((index for index in range(shorter) if old[index] != new[index]), shorter)
    end = next((index for index in range(shorter - start) if old[-1 - index] != new[-1 - index]), shorter - start)
    return start, end


def same_place(expected: Stretch, actual: Stretch) -> bool:
    """Whether nothing says that they stand in different places. Lines that are only added need a line beside them that
    is the same, or the same number."""
    sides = [(expected.before, actual.before), (expected.after, actual.after)]
    if any(wanted and found and wanted != found for wanted, found in sides):
        return False
    if expected.old.strip() or any(wanted and wanted == found for wanted, found in sides):
        return True
    return expected.line is not None and expected.line == actual.line


def in_one_order(expected: tuple[Stretch, ...], actual: tuple[Stretch, ...]) -> tuple[Stretch, ...]:
    """The actual ones, each beside the expected one that takes out the same text, where there are such."""
    left: dict[str, list[Stretch]] = {}
    for found in actual:
        left.setdefault(found.old.strip(), []).append(found)
    if any(not left.get(wanted.old.strip()) for wanted in expected):
        return actual
    placed = [left[text].pop(0) if left[text] else None for text in (wanted.old.strip() for wanted in expected)]
    return actual if None in placed else tuple(placed)
