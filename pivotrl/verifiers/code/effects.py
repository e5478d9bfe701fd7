"""Do two edits of one file have the same effect?"""

from collections.abc import Callable
from dataclasses import dataclass, replace

from pivotrl.trajectories.faults import excerpt
from pivotrl.verifiers.base import Difference
from pivotrl.verifiers.code.edits import Edit, apply_edit
from pivotrl.verifiers.code.languages import language_of
from pivotrl.verifiers.code.paths import same_path
from pivotrl.verifiers.code.source import compare, same_margin, same_words
from pivotrl.verifiers.code.stretches import Stretch, blocks_of, in_one_order, same_place, stretches_of

_BLIND = ("write", "insert", "lines")
"""Where lines are counted, or all is written anew, nothing tells what another kind of edit would leave."""

FileText = Callable[[str], str | None]
"""A path -> the file's text before the turn, where the history shows it."""


@dataclass(frozen=True)
class Known:
    """What the history says of the place where a call is made."""

    text_of: FileText
    cwd: str | None = None
    """The directory that relative paths start from; None: not known."""
    opened: str | None = None
    """The file that the editor has open: that of an edit without a path."""


Change = tuple[str, str]
"""Text that is taken out, and what is put in its place: whole lines, without those that are equal at both ends."""


def compare_edits(expected: tuple[Edit, ...], actual: tuple[Edit, ...], known: Known) -> Difference | None:
    """Why the edits of one call are not those of the other; None where they are. Each file's edit has one of the
    other's."""
    if len(expected) != len(actual):
        return Difference("other_edit", f"{len(actual)} files, expected {len(expected)}")
    if known.opened:
        expected, actual = (_with_path(edits, known.opened) for edits in (expected, actual))
    left = list(actual)
    for wanted in expected:
        found = next((edit for edit in left if same_path(wanted.path, edit.path, known.cwd)), None)
        if found is None:
            return Difference("other_target", f"{excerpt(left[0].path)}, expected {excerpt(wanted.path)}")
        left.remove(found)
        if (difference := _compare_edit(wanted, found, known)) is not None:
            return difference
    return None


def _with_path(edits: tuple[Edit, ...], opened: str) -> tuple[Edit, ...]:
    return tuple(edit if edit.path else replace(edit, path=opened) for edit in edits)


def _compare_edit(expected: Edit, actual: Edit, known: Known) -> Difference | None:
    if expected == actual:
        return None
    ends = ("delete", "undo")
    if (expected.kind in ends or actual.kind in ends) and expected.kind != actual.kind:
        return Difference("other_edit", f"{actual.kind}, expected {expected.kind}")
    if bool(expected.moved_to) != bool(actual.moved_to) or (
        expected.moved_to and not same_path(expected.moved_to, actual.moved_to, known.cwd)
    ):
        return Difference("other_target", f"moved to {excerpt(actual.moved_to)}, expected {excerpt(expected.moved_to)}")
    if expected.kind in ends:
        return None
    language = language_of(expected.moved_to or expected.path)
    before = known.text_of(expected.path) if expected.path else None
    if before is not None:
        wanted = apply_edit(before, expected)
        if isinstance(wanted, str):
            found = apply_edit(before, actual)
            return found if isinstance(found, Difference) else _compare_change((before, wanted), found, language)
    return _compare_unknown(expected, actual, language)


def _compare_change(expected: Change, found: str, language: str | None) -> Difference | None:
    """What the expert's change leaves, and what another change of the same text leaves. Where the expert changes
    nothing but comments or formatting, words are compared, so that doing nothing is not the same."""
    before, wanted = expected
    if wanted == found:
        return None
    if compare(before, wanted, language) is None:
        only_space = same_words(before, wanted)
        equal = wanted.strip() == found.strip() if only_space else same_words(wanted, found)
        return (
            None if equal else Difference("other_edit", "the expert's changes comments or formatting only, otherwise")
        )
    difference = compare(wanted, found, language)
    if difference is None and not same_margin(wanted, found, language):
        return Difference("other_edit", "its lines are indented otherwise")
    if difference is None or difference.reason == "too_long":
        return difference
    return Difference("other_edit", "it changes nothing" if found == before else "the text would read otherwise")


def _compare_unknown(expected: Edit, actual: Edit, language: str | None) -> Difference | None:
    """What stands in the file is not known, but for what the expert's edit says of it."""
    if expected.kind in _BLIND or actual.kind in _BLIND:
        if expected.kind != actual.kind or (expected.first, expected.last) != (actual.first, actual.last):
            found = f"{actual.kind} at line {actual.first}"
            return Difference("other_edit", f"{found}, expected {expected.kind} at line {expected.first}")
        return _compare_change(("", expected.text), actual.text, language)
    if len(actual.replacements) > 1 and any(part.old == part.new for part in actual.replacements):
        return Difference("edit_does_not_apply", "a replacement changes nothing")
    everywhere, known = _everywhere(expected), _known_block(expected)
    # The text that the expert replaces once is there once: to replace it everywhere is the same, but not the reverse.
    one_text = known is not None and all(part.old == known[0] for part in actual.replacements)
    if everywhere != _everywhere(actual) and (everywhere or not one_text):
        return Difference("other_edit", "one of them replaces every occurrence")
    if known is not None and not everywhere and all(hunk.old for hunk in actual.hunks):
        if actual.kind == "replace" and any(_cuts_a_line(known[0], part.old) for part in actual.replacements):
            return Difference("edit_does_not_apply", "part of a line, which may occur elsewhere too")
        found = apply_edit(known[0], actual)
        if isinstance(found, str):
            if known[0].endswith("\n") and known[1].endswith("\n") and not found.endswith("\n"):
                return Difference("other_edit", "it joins its last line and the next one")
            return _compare_change(known, found, language)
    return _compare_stretches(stretches_of(expected), stretches_of(actual), language)


def _everywhere(edit: Edit) -> bool:
    return any(part.every for part in edit.replacements)


def _known_block(edit: Edit) -> Change | None:
    """The one stretch that the expert's edit replaces, before and after: another edit inside of it can be tried."""
    blocks = blocks_of(edit)
    return blocks[0][:2] if len(blocks) == 1 and blocks[0][0] else None


def _cuts_a_line(known: str, part: str) -> bool:
    """Whether the part begins or ends inside a line of the known text, where that text itself does not."""
    start = known.find(part)
    if start < 0 or not part:
        return False
    ahead, behind = known[:start].rpartition("\n")[2], known[start + len(part) :].partition("\n")[0]
    return bool(ahead.strip() or behind.strip())


def _compare_stretches(
    expected: tuple[Stretch, ...], actual: tuple[Stretch, ...], language: str | None
) -> Difference | None:
    """What is taken out must be the expert's text, or the edit would not apply; white space at the ends aside, where an
    edit may begin inside a line."""
    if len(expected) != len(actual):
        return Difference("other_edit", f"{len(actual)} changes, expected {len(expected)}")
    for wanted, given in zip(expected, in_one_order(expected, actual)):
        old, actual_old, actual_new = wanted.old, given.old, given.new
        if old.strip() != actual_old.strip():
            return Difference("other_edit", f"replaces {excerpt(actual_old)}, expected {excerpt(old)}")
        if not same_place(wanted, given):
            return Difference("other_edit", f"in another place: {excerpt(actual_new)}")
        ahead = _lead(old).removesuffix(_lead(actual_old))  # the model's edit begins as much further right
        behind = _lead(actual_old).removesuffix(_lead(old))
        found = ahead + actual_new.removeprefix(behind) if old.strip() else actual_new
        if (difference := _compare_change((old, wanted.new), found, language)) is not None:
            return difference
    return None


def _lead(text: str) -> str:
    return text[: len(text) - len(text.lstrip())]
