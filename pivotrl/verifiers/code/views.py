"""What a tool's answer shows: a whole file, and whether an edit was made."""

import re

LONGEST = 400_000
"""Characters of an answer that is read as a file."""

_CUT = re.compile(
    r"<response clipped>|\[truncated|\.\.\. ?\(?truncated|output truncated|observation truncated|lines? omitted|"
    r"more lines? (?:above|below)|<NOTE>|content (?:was )?truncated|file is too large",
    re.IGNORECASE,
)
_NUMBERED = re.compile(r" {0,8}(\d{1,7})(?:\t|\u2192|:)(.*)")
_WINDOW = re.compile(r"\[File: ([^\n]{1,4096}?) \((\d{1,7}) lines total\)\]")
_TRAILER = re.compile(
    r"\n\[(?:The command completed with exit code 0\.?\]|Current working directory: |Python interpreter: |"
    r"Command finished with exit code 0\])",
    re.IGNORECASE,
)
_MADE = re.compile(
    r"has been (?:edited|updated|created|overwritten|written|modified|saved)|successfully|"
    r"^(?:success|done|ok|file updated|updated|wrote|edited|created)\b",
    re.IGNORECASE,
)
_NOT_MADE = re.compile(
    r"error|fail|no replacement|not (?:found|appear|match|exist|performed|unique|applied|valid|been read)|cannot|"
    r"could not|can't|invalid|already exists|multiple occurrences|unable|traceback|denied|rejected|no match|"
    r"found \d+ (?:match|occurrence)",
    re.IGNORECASE,
)


def was_made(answer: str) -> bool | None:
    """Whether an edit was made, told from the first line of the tool's answer: True also where that says nothing; None
    where it can be read both ways (`Edited error.py`)."""
    first = next((line for line in answer[:4000].split("\n") if line.strip()), "")[:300].strip()
    refused = _NOT_MADE.search(first) is not None
    return None if refused and _MADE.search(first) else not refused


def plain_file(answer: str) -> str | None:
    """The file that `cat` printed; None where the answer may not be all of it."""
    if len(answer) > LONGEST or _CUT.search(answer) or answer.lstrip().startswith(("<", "[", "cat:")):
        return None
    if _NUMBERED.match(answer.lstrip("\n")):
        return None  # `nl` numbers no blank lines
    trailer = _TRAILER.search(answer)
    text = answer[: trailer.start()] if trailer else answer
    return None if re.search(r"^\[.{0,40}exit code", text, re.MULTILINE) or not text.strip() else text


def numbered_file(answer: str) -> str | None:
    """The file whose lines an answer numbers, from 1 without a gap, after at most one line of introduction; None where
    it does not show one whole."""
    if len(answer) > LONGEST or _CUT.search(answer):
        return None
    body = answer.partition("\n\n<system-reminder>")[0].replace("\r\n", "\n").split("\n")
    while body and not body[-1].strip():
        body.pop()
    start = 0 if body and _NUMBERED.fullmatch(body[0]) else 1
    return _numbered(body[start:])


def window_file(answer: str) -> tuple[str, str] | None:
    """(path, text) of the file that SWE-agent's window shows whole; None where it shows none, or a part."""
    header = _WINDOW.search(answer[:20_000])
    if header is None or len(answer) > LONGEST or "This is how your edit would have looked" in answer:
        return None
    lines = answer[header.end() :].replace("\r\n", "\n").lstrip("\n").split("\n")[: int(header[2])]
    text = _numbered(lines)
    return None if text is None or len(lines) != int(header[2]) else (header[1], text)


def _numbered(lines: list[str]) -> str | None:
    texts = []
    for number, line in enumerate(lines, 1):
        match = _NUMBERED.fullmatch(line)
        if match is None or int(match[1]) != number:
            return None
        texts.append(match[2])
    return "\n".join(texts) if texts else None
