"""JSON Lines on disk: streamed in, written atomically or appended durably.

What we write is ASCII with the keys in the order of the row, which templates see: equal rows give equal bytes on every
machine, and a tool read back renders as the one written.
"""

import json
import os
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO

from pivotrl.disk import naming
from pivotrl.trajectories.arrays import scan_json_array

LARGEST_ROW = 1 << 30
"""Bytes of a file that is one row."""
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
PACKED = {b"\x1f\x8b": "gzip", b"PK\x03\x04": "zip", b"\x28\xb5\x2f\xfd": "zstd", b"BZh": "bzip2", b"\xfd7zXZ": "xz"}
UTF_16 = (b"\xff\xfe", b"\xfe\xff")


def dumps(value: Any) -> str:
    return json.dumps(value, ensure_ascii=True, separators=(",", ":"))


def parse_json(text: str) -> Any:
    """Parse untrusted JSON. Raises ValueError, also where Python's parser would overflow its stack."""
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def scan_jsonl(path: str | Path) -> Iterator[tuple[int, Any, str]]:
    """Yield (1-based line, value, fault) for each line that is not blank; `fault` is empty, or says why `value` is
    None.

    Holds one line at a time. Raises ValueError where the file cannot be opened.
    """
    with open_for_reading(path) as file:
        for line, raw in enumerate(file, start=1):
            if line == 1:
                raw = raw.removeprefix(BYTE_ORDER_MARK)
            if raw.isspace():
                continue
            try:
                yield line, parse_json(raw.decode("utf-8")), ""
            except ValueError as error:
                yield line, None, f"{error}"


def scan_rows(path: str | Path) -> Iterator[tuple[str, Any, str]]:
    """Yield (place, value, fault) for each row of a user's file, whose form is told from how it begins:

    - `[`: one JSON array, a row an item; but where the first item is a chat message, the whole array is the one row;
    - `{` and a first line that is no whole object: one JSON object over many lines, the one row;
    - else JSON Lines.

    Arrays of rows and JSON Lines are streamed. What is one row is held whole, up to LARGEST_ROW bytes. The place is
    `line 7` (1-based) or `item 3` (0-based); `fault` as in `scan_jsonl`. Raises ValueError for a file that cannot be
    read, is packed or is not UTF-8, and where a file of one value or one array stops being JSON.
    """
    with open_for_reading(path) as file:
        if not file.seekable():
            raise ValueError(f"{path}: a pipe; files are read more than once: write it to a file, and give its path")
        head = file.read(4096)
        check_head(path, head)
        text = head.removeprefix(BYTE_ORDER_MARK).lstrip()
        if text.startswith(b"["):
            file.seek(head.index(b"["))
            yield from _array_rows(path, scan_json_array(file, path))
            return
        file.seek(0)
        one_object = text.startswith(b"{") and _goes_on_in_next_line(file)
        if one_object:
            file.seek(0)
            yield "item 0", _whole_value(path, file), ""
            return
    for line, value, fault in scan_jsonl(path):
        yield f"line {line}", value, fault


def _array_rows(path: str | Path, items: Iterator[tuple[int, Any]]) -> Iterator[tuple[str, Any, str]]:
    first = next(items, None)
    if first is None:
        return
    if is_message(first[1]):
        _check_size(path, "a list of messages")
        yield "item 0", [first[1], *(item for _, item in items)], ""
        return
    for index, item in chain([first], items):
        yield f"item {index}", item, ""


def is_message(value: Any) -> bool:
    """Whether an item of a file is one chat message, and not a row that holds several."""
    return isinstance(value, dict) and isinstance(value.get("role"), str) and "messages" not in value


def _goes_on_in_next_line(file: BinaryIO) -> bool:
    """Whether the first line that is not blank is the beginning of a JSON object that later lines end.

    Inside one value, lines are cut between tokens; so the parser's complaint is that the text ends. Where the line
    after it is a whole object, the first one was cut off, and the file is JSON Lines.
    """
    lines = (line for line in file if line.strip(b" \t\r\n\xef\xbb\xbf"))
    first = next(lines, b"").removeprefix(BYTE_ORDER_MARK)
    if not _ends_too_early(first):
        return False
    try:
        return not isinstance(parse_json(next(lines, b"{}").decode("utf-8")), dict)
    except ValueError:
        return True


def _ends_too_early(line: bytes) -> bool:
    try:
        text = line.decode("utf-8").rstrip()
        json.loads(text)
    except json.JSONDecodeError as error:
        return error.pos >= len(text)
    except (ValueError, RecursionError):
        return False
    return False


def _whole_value(path: str | Path, file: BinaryIO) -> Any:
    _check_size(path, "one JSON object over many lines")
    try:
        return parse_json(file.read().removeprefix(BYTE_ORDER_MARK).decode("utf-8"))
    except UnicodeDecodeError as error:
        raise ValueError(f"{path}: not UTF-8 ({error.reason}); save the file as UTF-8") from None
    except ValueError as error:
        raise ValueError(
            f"{path}: begins as one JSON object over many lines, which is broken ({error}); repair the file there, or "
            "write JSON Lines with one object a line"
        ) from None


def _check_size(path: str | Path, found: str) -> None:
    if (size := os.path.getsize(path)) > LARGEST_ROW:
        raise ValueError(
            f"{path}: {found}, {size:,} bytes; such a file is held whole and may have {LARGEST_ROW:,} bytes: write "
            "JSON Lines with one trajectory a line"
        )


def check_head(path: str | Path, head: bytes) -> None:
    """Raise ValueError where a file begins like one that is packed, binary or in another encoding."""
    for magic, name in PACKED.items():
        if head.startswith(magic):
            raise ValueError(f"{path}: packed with {name}; unpack it and give the unpacked file")
    if head.startswith(b"PAR1"):
        raise ValueError(f"{path}: a Parquet file; write it as JSON Lines")
    if head.startswith(UTF_16) or b"\0" in head[:4]:
        raise ValueError(f"{path}: UTF-16 or UTF-32 text; save the file as UTF-8")


def read_jsonl(path: str | Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield (1-based line, object) of a file that this program wrote. Raises ValueError at the first line that is not
    an object."""
    for line, value, fault in scan_jsonl(path):
        if not isinstance(value, dict):
            raise ValueError(
                f"{path}:{line}: expected a JSON object, found {fault or type(value).__name__}; write the file anew"
            )
        yield line, value


def write_jsonl(path: str | Path, rows: Iterable[dict[str, Any]]) -> int:
    """Write rows to a temporary neighbour, then rename it: readers see the old file or the whole new one. Returns the
    number of rows."""
    count = 0
    temporary = Path(f"{path}.tmp")
    with open(temporary, "w", encoding="ascii", newline="\n") as file:
        for row in rows:
            file.write(dumps(row) + "\n")
            count += 1
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, path)
    return count


def write_json(path: str | Path, value: Any) -> None:
    """Write one indented JSON value atomically."""
    temporary = Path(f"{path}.tmp")
    with naming(path):
        temporary.write_text(json.dumps(value, indent=2) + "\n", encoding="ascii")
        os.replace(temporary, path)


def append_jsonl(path: str | Path, rows: Iterable[dict[str, Any]]) -> None:
    """Append rows and return once they are on disk. A kill leaves at most one incomplete last line, without a
    newline."""
    with open(path, "a", encoding="ascii", newline="\n") as file:
        file.write("".join(dumps(row) + "\n" for row in rows))
        file.flush()
        os.fsync(file.fileno())


def drop_incomplete_line(path: str | Path) -> None:
    """Cut a file that was being appended to when its writer was killed back to its last whole line."""
    with open(path, "rb+") as file:
        end = size = file.seek(0, os.SEEK_END)
        while end > 0:
            start = max(0, end - 65536)
            file.seek(start)
            newline = file.read(end - start).rfind(b"\n")
            if newline >= 0:
                end = start + newline + 1
                break
            end = start
        if end < size:
            file.truncate(end)


def open_for_reading(path: str | Path):
    """Open a user's file as bytes. Raises ValueError with the path and the system's reason."""
    if os.path.isdir(path):
        raise ValueError(
            f"{path}: a folder; name the files in it (on a command line, a shell writes {path}/*.json out)"
        )
    try:
        return open(path, "rb")
    except OSError as error:
        raise ValueError(f"{path}: cannot be read ({error.strerror}); give the path of a readable file") from None
