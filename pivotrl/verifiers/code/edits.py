"""An edit of one file as data, and what it makes of the file's text. No file is ever touched."""

import re
from dataclasses import dataclass
from typing import Literal

from pivotrl.verifiers.base import Difference
from pivotrl.verifiers.code.diffs import Hunk

LONGEST_FILE = 1_000_000
"""Characters of a file before and after an edit."""

AT_END = -1
"""The line of an `insert` behind all others."""

Kind = Literal["write", "replace", "insert", "lines", "patch", "delete", "undo"]


@dataclass(frozen=True)
class Replacement:
    """A stretch of text and what takes its place."""

    old: str
    new: str
    every: bool = False
    """Each time it occurs; else it must occur once."""


@dataclass(frozen=True)
class Edit:
    """One file's edit."""

    kind: Kind
    path: str
    """As it was written; empty: the file that the editor has open."""
    text: str = ""
    """`write`: the file's text; `insert`, `lines`: the text put in."""
    replacements: tuple[Replacement, ...] = ()
    """`replace`: one after the other."""
    first: int = 0
    """`insert`: behind this line (0: at the file's start); `lines`: the first line replaced, 1-based."""
    last: int = 0
    """`lines`: the last line replaced."""
    hunks: tuple[Hunk, ...] = ()
    moved_to: str = ""


def apply_edit(text: str | None, edit: Edit) -> str | Difference:
    """The file's text after the edit; why it cannot be made (`edit_does_not_apply`, `too_long`).

    Args:
        text: the file's text before; None: there is no file.
    """
    if edit.kind == "write":
        result: str | Difference = edit.text
    elif edit.kind == "delete":
        result = ""
    elif edit.kind == "undo":
        result = _fault("what was there before is not known")
    elif edit.kind == "replace":
        result = _replace(text, edit.replacements)
    elif text is None:
        result = _fault("there is no such file")
    elif edit.kind == "patch":
        result = _patch(text, edit.hunks)
    else:
        result = _put(text, edit)
    if isinstance(result, str) and len(result) > LONGEST_FILE:
        return Difference("too_long", f"the file would have {len(result)} characters")
    return result


def _fault(detail: str) -> Difference:
    return Difference("edit_does_not_apply", detail)


def _replace(text: str | None, replacements: tuple[Replacement, ...]) -> str | Difference:
    for index, part in enumerate(replacements):
        if not part.old:
            if text:
                return _fault("the text to be replaced is empty, and the file is not")
            text = part.new  # how an editor without a command for it makes a file
            continue
        if text is None:
            return _fault("there is no such file")
        if part.old == part.new and len(replacements) > 1:
            return _fault(f"replacement {index + 1} changes nothing")
        count = text.count(part.old)
        if count == 0 or (count > 1 and not part.every):
            return _fault(f"the text to be replaced occurs {count} times (replacement {index + 1})")
        if len(text) + count * len(part.new) > LONGEST_FILE:
            return Difference("too_long", f"the file would have more than {LONGEST_FILE} characters")
        text = text.replace(part.old, part.new)
    return text if text is not None else _fault("nothing is replaced")


def _put(text: str, edit: Edit) -> str | Difference:
    lines = text.split("\n")
    if edit.kind == "insert":
        start = stop = len(lines) if edit.first == AT_END else edit.first
        if not 0 <= start <= len(lines):
            return _fault(f"line {edit.first} of {len(lines)}")
    else:
        if not 1 <= edit.first <= edit.last <= len(lines):
            return _fault(f"lines {edit.first} to {edit.last} of {len(lines)}")
        start, stop = edit.first - 1, edit.last
    added = edit.text.removesuffix("\n").split("\n") if edit.text or edit.kind == "insert" else []
    return "\n".join(lines[:start] + added + lines[stop:])


def _patch(text: str, hunks: tuple[Hunk, ...]) -> str | Difference:
    """Each hunk where its lines stand: at the line that it names, moved as hunks before it moved the text, else at the
    nearest place behind the last hunk; every line must be equal."""
    ends = text.endswith("\n")
    body = text if ends or not text else text + "\n"
    starts = (
        [0, *(match.end() for match in re.finditer("\n", body))]
        if any(hunk.start is not None for hunk in hunks)
        else []
    )
    result: list[str] = []
    cursor = 0  # in `body`, behind the last hunk
    for index, hunk in enumerate(hunks):
        old = "".join(item + "\n" for item in hunk.old)
        if hunk.anchor:
            found = _find_line(body, hunk.anchor, cursor)
            if found is None:
                return _fault(f"the line named by hunk {index + 1} is not there")
        else:
            found = cursor
        place = _place(body, old, hunk.start, found, starts)
        if place is None:
            return _fault(f"the lines of hunk {index + 1} are not there")
        result += (body[cursor:place], *(item + "\n" for item in hunk.new))
        cursor = place + len(old)
    whole = "".join(result) + body[cursor:]
    return whole if ends or not text else whole.removesuffix("\n")


def _find_line(body: str, anchor: str, start: int) -> int | None:
    """Where the line behind the first one that reads `anchor` begins, its indentation aside."""
    while start < len(body):
        stop = body.find("\n", start)
        stop = len(body) if stop < 0 else stop
        if body[start:stop].strip() == anchor:
            return stop + 1
        start = stop + 1
    return None


def _place(body: str, old: str, start: int | None, lowest: int, starts: list[int]) -> int | None:
    """Where `old` stands, at `lowest` or behind it. `starts`: where the body's lines begin."""
    if not old:
        # Only lines are added: behind the line that the hunk names, or at the end.
        return len(body) if start is None else _start_of_line(starts, start + 1, lowest)
    wished = lowest
    if start is not None:
        named = _start_of_line(starts, start, lowest)
        if named is not None and body.startswith(old, named):
            return named
        wished = len(body) if named is None else named
    marked, sought = "\n" + body, "\n" + old
    after = marked.find(sought, wished)
    before = _find_last(marked, sought, lowest, wished + len(sought)) if wished > lowest else -1
    places = [place for place in (before, after) if place >= lowest]
    return min(places, key=lambda place: abs(place - wished)) if places else None


def _start_of_line(starts: list[int], line: int, lowest: int) -> int | None:
    """Where the line of that number (1-based) begins; None where there is none, or it begins before `lowest`."""
    found = starts[line - 1] if 1 <= line <= len(starts) else -1
    return found if found >= lowest else None


def _find_last(text: str, sought: str, start: int, stop: int) -> int:
    """As `text.rfind`, whose time may grow as the product of the lengths, where `find` has a bound."""
    window = text[start:stop]
    found = window[::-1].find(sought[::-1])
    return -1 if found < 0 else start + len(window) - found - len(sought)
