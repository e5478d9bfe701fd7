"""Unified diffs, the `*** Begin Patch` envelope and SEARCH / REPLACE blocks, read as data. No file is ever touched."""

import re
from dataclasses import dataclass

LONGEST = 400_000
"""Characters of a diff that is read."""

MOST_HUNKS = 256
"""Files and hunks of one patch; one of more is not read."""

_HUNK = re.compile(r"@@ -(\d{1,9})(?:,(\d{1,9}))? \+(\d{1,9})(?:,(\d{1,9}))? @@")
_ENVELOPE = re.compile(r"\*\*\* (Add|Update|Delete) File: (.+)")
_NUMBERED = re.compile(r":(?:start|end)_line:\s*\d+\s*|-{5,}\s*")


@dataclass(frozen=True)
class Hunk:
    """Lines that stand together, before and after."""

    old: tuple[str, ...]
    new: tuple[str, ...]
    start: int | None = None
    """1-based line of `old` in the file before the patch, where the patch says it."""
    anchor: str = ""
    """A line that stands somewhere before it (`@@ class A`, in an envelope)."""


@dataclass(frozen=True)
class FilePatch:
    """What a patch does to one file."""

    path: str
    hunks: tuple[Hunk, ...]
    kind: str = "change"
    """`change`, `create` or `delete`."""
    moved_to: str = ""


def read_patch(text: str) -> tuple[FilePatch, ...] | None:
    """The files of a patch in order; None where the text is no patch that can be read whole. A patch of hunks alone
    has one file, whose path is empty."""
    if len(text) > LONGEST:
        return None
    lines = text.replace("\r\n", "\n").split("\n")
    envelope = any(line.startswith("*** Begin Patch") for line in lines[:50])
    files = _read_envelope(lines) if envelope else _read_unified(lines)
    if files is None or len(files) + sum(len(file.hunks) for file in files) > MOST_HUNKS:
        return None
    return files


def _read_unified(lines: list[str]) -> tuple[FilePatch, ...] | None:
    patches: list[FilePatch] = []
    header: dict[str, str] = {}
    hunks: list[Hunk] = []

    def close() -> None:
        if hunks or header:
            patches.append(_file_patch(header, tuple(hunks)))
        header.clear()
        hunks.clear()

    at = 0
    while at < len(lines):
        line = lines[at]
        following = lines[at + 1] if at + 1 < len(lines) else ""
        if line.startswith("diff --git ") or (line.startswith("Index: ") and hunks):
            close()
            header["git"] = line
        elif line.startswith("--- ") and following.startswith("+++ "):
            if hunks or "old" in header:
                close()
            header |= {"old": _header_path(line), "new": _header_path(following)}
            at += 1
        elif line.startswith("rename to "):
            header["to"] = line[10:].strip()
        elif line.startswith("rename from "):
            header["from"] = line[12:].strip()
        elif line.startswith("@@"):
            hunk, at = _read_hunk(lines, at)
            if hunk is None:
                return None
            hunks.append(hunk)
            continue
        elif line[:1] in ("+", "-") and (hunks or "old" in header):
            return None  # changed lines outside of a hunk
        at += 1
    close()
    if any(not patch.hunks and patch.kind == "change" and not patch.moved_to for patch in patches):
        return None
    return tuple(patches) or None


def _read_hunk(lines: list[str], at: int) -> tuple[Hunk | None, int]:
    """The hunk whose `@@` line is at `at`, and the index behind it. Its counts only tell where it may end: models often
    miscount."""
    match = _HUNK.match(lines[at])
    left_old, left_new = (int(match.group(2) or 1), int(match.group(4) or 1)) if match else (0, 0)
    old: list[str] = []
    new: list[str] = []
    blanks = 0
    at += 1
    while at < len(lines):
        line = lines[at]
        complete = len(old) >= left_old and len(new) >= left_new
        following = lines[at + 1] if at + 1 < len(lines) else ""
        if line.startswith(("@@", "diff --git ", "*** ")) or (line == "-- " and complete):
            break
        if line.startswith("--- ") and following.startswith("+++ ") and (complete or match is None):
            break
        if line.startswith("\\"):
            at += 1
            continue
        tag = line[:1]
        if tag not in ("", " ", "+", "-", "\t"):
            if complete and match:
                break
            return None, at
        content = line[1:] if tag in ("+", "-", " ") else line
        if tag != "+":
            old.append(content)
        if tag != "-":
            new.append(content)
        blanks = blanks + 1 if tag == "" else 0
        at += 1
    while blanks and (match is None or (len(old) > left_old and len(new) > left_new)):
        old.pop()
        new.pop()
        blanks -= 1
    if old == new:
        return None, at
    start = int(match.group(1)) if match else None
    return Hunk(tuple(old), tuple(new), start), at


def _header_path(line: str) -> str:
    return line[4:].split("\t")[0].strip().strip('"')


def _file_patch(header: dict[str, str], hunks: tuple[Hunk, ...]) -> FilePatch:
    old, new = header.get("old", ""), header.get("new", "")
    if old.startswith("a/") and (new.startswith("b/") or new == "/dev/null"):
        old = old[2:]
    if new.startswith("b/") and (header.get("old", "").startswith("a/") or old == "/dev/null"):
        new = new[2:]
    if "to" in header:
        return FilePatch(header.get("from", old), hunks, moved_to=header["to"])
    if old == "/dev/null":
        return FilePatch(new, hunks, "create")
    if new == "/dev/null":
        return FilePatch(old, hunks, "delete")
    return FilePatch(new or old, hunks)


def _read_envelope(lines: list[str]) -> tuple[FilePatch, ...] | None:
    """The form of OpenAI's `apply_patch`: hunks found by their lines, and by `@@` anchors before them."""
    start = next(index for index, line in enumerate(lines) if line.startswith("*** Begin Patch")) + 1
    end = next((index for index, line in enumerate(lines) if line.startswith("*** End Patch")), None)
    if end is None or any(line.strip() for line in lines[end + 1 :]):
        return None
    patches: list[FilePatch] = []
    sections: list[tuple[str, str, list[str]]] = []
    for line in lines[start:end]:
        match = _ENVELOPE.match(line)
        if match:
            sections.append((match.group(1), match.group(2).strip(), []))
        elif sections:
            sections[-1][2].append(line)
        elif line.strip():
            return None
    for action, path, body in sections:
        if action == "Delete":
            patches.append(FilePatch(path, (), "delete"))
        elif action == "Add":
            added = [line[1:] for line in body if line.startswith("+")]
            if any(line.strip() and not line.startswith("+") for line in body):
                return None
            patches.append(FilePatch(path, (Hunk((), tuple(added)),), "create"))
        else:
            moved = next((line[13:].strip() for line in body[:1] if line.startswith("*** Move to: ")), "")
            hunks = _envelope_hunks(body[1:] if moved else body)
            if hunks is None or not (hunks or moved):
                return None
            patches.append(FilePatch(path, hunks, moved_to=moved))
    return tuple(patches) or None


def _envelope_hunks(body: list[str]) -> tuple[Hunk, ...] | None:
    hunks: list[Hunk] = []
    old: list[str] = []
    new: list[str] = []
    anchor = ""

    def close() -> None:
        if old != new:
            hunks.append(Hunk(tuple(old), tuple(new), None, anchor))
        old.clear()
        new.clear()

    end = max((index + 1 for index, line in enumerate(body) if line.strip()), default=0)
    for line in body[:end]:
        tag = line[:1]
        if line.startswith("@@"):
            close()
            anchor = line[2:].removesuffix("@@").strip()
        elif line.startswith("*** End of File"):
            continue
        elif tag in ("", " ", "+", "-"):
            if tag != "+":
                old.append(line[1:])
            if tag != "-":
                new.append(line[1:])
        else:
            return None
    close()
    return tuple(hunks)


def read_blocks(text: str) -> tuple[tuple[str, str], ...] | None:
    """(search, replace) of `<<<<<<< SEARCH`, `=======`, `>>>>>>> REPLACE` blocks; None where there are none, or one is
    not closed."""
    if len(text) > LONGEST:
        return None
    blocks: list[tuple[str, str]] = []
    search: list[str] | None = None
    replacement: list[str] | None = None
    for line in text.replace("\r\n", "\n").split("\n"):
        mark = line.strip()
        if search is None:
            if re.fullmatch(r"(?:<{5,9}|-{5,9}) SEARCH>?", mark):
                search = []
        elif replacement is None:
            if re.fullmatch(r"={5,9}", mark):
                replacement = []
            elif search or not _NUMBERED.fullmatch(mark):
                search.append(line)
        elif re.fullmatch(r"(?:>{5,9}|\+{5,9}) REPLACE>?", mark):
            blocks.append(("\n".join(search), "\n".join(replacement)))
            search = replacement = None
        else:
            replacement.append(line)
    return tuple(blocks) if blocks and search is None else None


def diff_in(message: str) -> str | None:
    """The content of a message's one ```diff (or ```patch) block; None where there is none, or more than one."""
    found: list[list[str]] = []
    inside = False
    for line in message.split("\n"):
        mark = line.strip()
        if not inside and mark in ("```diff", "```patch"):
            found.append([])
            inside = True
        elif inside and mark == "```":
            inside = False
        elif inside:
            found[-1].append(line)
    return "\n".join(found[0]) if len(found) == 1 and not inside else None
