"""JSON Lines on disk: streamed in, written atomically or appended durably.

What we write is ASCII with the keys in the order of the row, which templates see: equal rows give equal bytes on every
machine, and a tool read back renders as the one written.
"""

import json
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

ARRAY_CHUNK = 1 << 20
"""Bytes of a JSON array read at a time."""
BYTE_ORDER_MARK = b"\xef\xbb\xbf"


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
    """Yield (place, value, fault) for each row of a JSON Lines file or of one JSON array, told apart by the first
    character.

    The place is `line 7` (1-based) or `item 3` (0-based); `fault` as in `scan_jsonl`.
    """
    with open_for_reading(path) as file:
        head = file.read(4096).removeprefix(BYTE_ORDER_MARK).lstrip()
    if head.startswith(b"["):
        for index, item in scan_json_array(path):
            yield f"item {index}", item, ""
    else:
        for line, value, fault in scan_jsonl(path):
            yield f"line {line}", value, fault


def read_jsonl(path: str | Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield (1-based line, object) of a file that this program wrote. Raises ValueError at the first line that is not
    an object."""
    for line, value, fault in scan_jsonl(path):
        if not isinstance(value, dict):
            raise ValueError(
                f"{path}:{line}: expected a JSON object, found {fault or type(value).__name__}; write the file anew"
            )
        yield line, value


def scan_json_array(path: str | Path) -> Iterator[tuple[int, Any]]:
    """Yield (0-based index, item) of a file that holds one JSON array, holding about one item at a time.

    Raises ValueError, with the item's index, where the text stops being a JSON array: nothing after that point can be
    trusted; and where text follows the array, which would be lost.
    """
    decoder, index, buffer, ended, pending = json.JSONDecoder(), 0, "", False, b""
    with open_for_reading(path) as file:
        if not (head := file.read(4096)).removeprefix(BYTE_ORDER_MARK).lstrip().startswith(b"["):
            raise ValueError(f"{path}: expected a JSON array, found {head[:20]!r}; write [item, item, ...]")
        file.seek(head.index(b"[") + 1)
        while True:
            buffer = buffer.lstrip(" \t\r\n,")
            if buffer.startswith("]"):
                _check_nothing_follows(path, buffer[1:].encode() + pending, file)
                return
            try:
                item, used = decoder.raw_decode(buffer)
                complete = ended or used < len(buffer)  # a number at the very end of the buffer may go on
            except RecursionError:
                raise ValueError(f"{path} item {index}: nested too deeply; write flatter JSON") from None
            except ValueError as error:
                if ended:
                    raise ValueError(f"{path} item {index}: not JSON ({error}); repair the file there") from None
                complete = False
            if complete:
                yield index, item
                buffer, index = buffer[used:], index + 1
                continue
            raw = file.read(max(ARRAY_CHUNK, len(buffer)))
            text, pending = _decode_prefix(path, pending + raw, final=not raw)
            buffer, ended = buffer + text, not raw


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
    try:
        return open(path, "rb")
    except OSError as error:
        raise ValueError(f"{path}: cannot be read ({error.strerror}); give the path of a readable file") from None


def _check_nothing_follows(path: str | Path, rest: bytes, file: BinaryIO) -> None:
    """Only white space may follow an array. Raises ValueError."""
    rest = rest or file.read(ARRAY_CHUNK)
    while rest:
        if found := rest.strip():
            raise ValueError(
                f"{path}: text follows the JSON array that begins the file ({found[:20]!r}); "
                "write one array, or JSON Lines with one object a line"
            )
        rest = file.read(ARRAY_CHUNK)


def _decode_prefix(path: str | Path, raw: bytes, final: bool) -> tuple[str, bytes]:
    """Decode all whole UTF-8 characters; the bytes of a character cut in two at the end are returned for the next
    call."""
    try:
        return raw.decode("utf-8"), b""
    except UnicodeDecodeError as error:
        if final or len(raw) - error.start > 3:
            raise ValueError(f"{path}: not UTF-8 ({error.reason}); save the file as UTF-8") from None
        return raw[: error.start].decode("utf-8"), raw[error.start :]
