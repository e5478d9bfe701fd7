"""Looking at a file, or at some of its lines, as data."""

import json
import re
from dataclasses import dataclass
from typing import Any

from pivotrl.trajectories.faults import excerpt
from pivotrl.verifiers.base import Difference
from pivotrl.verifiers.code.paths import same_path
from pivotrl.verifiers.code.shapes import PATH, Arguments, as_integer, is_editor, pick, tool_key

MOST_TIMES = 2
"""How many times as many lines as the expert a model may look at, if the expert's are among them."""

_NAMES = (
    "view read read_file view_file cat_file file_view show_file read_file_content inspect open open_file file_read"
    " get_file_contents"
)
_READERS = {tool_key(name) for name in _NAMES.split()}
_FIRST = ("start_line", "start", "line_start", "from_line", "start_line_one_indexed", "view_start")
_LAST = ("end_line", "end", "line_end", "to_line", "end_line_one_indexed_inclusive", "view_end")
_KNOWN = {*PATH, *_FIRST, *_LAST, "view_range", "offset", "limit", "command", "security_risk", "line_number"}
_WHOLE = {"should_read_entire_file", "explanation"}
_CHARACTER = r"[^\s;&|<>$`*?'\"\\#~()\[\]{}!]"
"""Of a path that a shell takes as it is written."""
_FILE = rf"((?!-){_CHARACTER}+)"
_SED = r"sed -n (['\"]?)(\d{1,9})(?:,(\d{1,9}|\$))?p\1"
_HEAD = r"head(?: (?:-n ?|-)(\d{1,9}))?"
_TAIL = r"tail -n ?\+(\d{1,9})"
_ALL = r"(?:cat(?: -n)?|nl(?: -ba| -b a)?)"
_CD = re.compile(rf"cd ({_CHARACTER}+) ?(?:&&|;) ?")
_WHOLE_FILE = re.compile(rf"{_ALL} {_FILE}(?: ?\| ?(.+))?")
_PARTS = {part: re.compile(part) for part in (_SED, _HEAD, _TAIL)}
_PARTS_OF_FILE = {part: re.compile(rf"{part} {_FILE}") for part in (_SED, _HEAD, _TAIL)}


@dataclass(frozen=True)
class Read:
    """`path`, from line `first` to line `last`, 1-based; None: the file's end."""

    path: str
    first: int = 1
    last: int | None = None


def read_of(name: Any, arguments: Any) -> Read | Difference | None:
    """What a call looks at; why it is unusable; None where it is no look at a file that is known."""
    if not isinstance(name, str) or len(name) > 256 or not isinstance(arguments, dict):
        return None
    if tool_key(name) not in _READERS and not (arguments.get("command") == "view" and is_editor(name)):
        return None
    if not arguments.keys() <= _KNOWN | _WHOLE:
        return None
    path = pick(arguments, PATH)
    if not isinstance(path, str) or not path.strip():
        return Difference("missing_argument", "no path")
    return _with_lines(path, arguments)


def _with_lines(path: str, arguments: Arguments) -> Read | Difference:
    span = arguments.get("view_range")
    if isinstance(span, str) and len(span) < 100:
        try:
            span = json.loads(span)
        except (ValueError, RecursionError):
            return Difference("other_range", f"{excerpt(span)} is no range")
    if span is not None:
        ends = [as_integer(item) for item in span] if isinstance(span, list) and len(span) == 2 else [None]
        if None in ends or ends[0] < 1:
            return Difference("other_range", f"{excerpt(span)} is no range")
        return _span(path, ends[0], None if ends[1] == -1 else ends[1])
    if arguments.get("line_number") is not None:
        return _span(path, as_integer(arguments["line_number"]), as_integer(arguments["line_number"]))
    if arguments.get("offset") is not None or arguments.get("limit") is not None:
        first, limit = as_integer(arguments.get("offset") or 1), arguments.get("limit")
        count = as_integer(limit)
        if first is None or (limit is not None and count is None):
            return Difference("other_range", "no range")
        return _span(path, max(first, 1), None if count is None else max(first, 1) + count - 1)
    first, last = pick(arguments, _FIRST), pick(arguments, _LAST)
    whole = as_integer(last) in (None, -1) and last in (None, -1, "-1")
    return _span(path, as_integer(1 if first is None else first), None if whole else as_integer(last) or 0)


def _span(path: str, first: int | None, last: int | None) -> Read | Difference:
    if first is None or first < 0 or (last is not None and last < first):
        return Difference("other_range", f"lines {first} to {last}")
    return Read(path, max(first, 1), last)


def read_in_shell(command: Any) -> Read | None:
    """The look at one file that `cat FILE`, `nl FILE`, `sed -n 'A,Bp' FILE`, `head -n N FILE` or `tail -n +A FILE` is,
    also as `cat FILE | sed -n 'A,Bp'`, and behind one `cd FOLDER &&`; None for all else."""
    if not isinstance(command, str) or len(command) > 4096:
        return None
    command = re.sub(r"[ \t]+", " ", command.strip())
    folder = ""
    if match := _CD.match(command):
        folder, command = match[1], command[match.end() :]
    if match := _WHOLE_FILE.fullmatch(command):
        path, part = match.groups()
        span = (1, None) if part is None else _lines_of(part, _PARTS)
    else:
        matches = (pattern.fullmatch(command) for pattern in _PARTS_OF_FILE.values())
        path = next((match[match.re.groups] for match in matches if match), None)
        span = _lines_of(command, _PARTS_OF_FILE)
    if path is None or span is None:
        return None
    return Read(f"{folder}/{path}" if folder and not path.startswith("/") else path, *span)


def _lines_of(command: str, patterns: dict[str, re.Pattern]) -> tuple[int, int | None] | None:
    """The first and the last line (None: the end) that a `sed`, `head` or `tail` prints; None for anything else."""
    first, last = 0, 0
    if match := patterns[_SED].fullmatch(command):
        first = int(match[2])
        last = None if match[3] == "$" else int(match[3] or match[2])
    elif match := patterns[_HEAD].fullmatch(command):
        first, last = 1, int(match[1] or 10)
    elif match := patterns[_TAIL].fullmatch(command):
        first, last = int(match[1]), None
    return (first, last) if first > 0 and (last is None or last >= first) else None


def compare_reads(expected: Read, actual: Read, cwd: str | None = None) -> Difference | None:
    """The model sees the expert's lines, and not many more. `cwd`: see `paths.same_path`."""
    if not same_path(expected.path, actual.path, cwd):
        return Difference("other_target", f"{excerpt(actual.path)}, expected {excerpt(expected.path)}")
    if (expected.first, expected.last) == (actual.first, actual.last):
        return None
    if expected.last is not None and actual.last is not None:
        covers = actual.first <= expected.first and expected.last <= actual.last
        most = MOST_TIMES * (expected.last - expected.first + 1)
        if covers and actual.last - actual.first + 1 <= most:
            return None
    wanted = f"lines {expected.first} to {expected.last or 'the end'}"
    return Difference("other_range", f"lines {actual.first} to {actual.last or 'the end'}, expected {wanted}")
