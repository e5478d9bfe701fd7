"""One JSON array, read item by item: a file of any size is held about one item at a time."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

ARRAY_CHUNK = 1 << 20
"""Bytes read at a time."""
WHITE = " \t\r\n"


def scan_json_array(file: BinaryIO, path: str | Path) -> Iterator[tuple[int, Any]]:
    """Yield (0-based index, item) of an open file whose next byte is the `[` of its one JSON array.

    Raises ValueError, with the item's index and `path`, where the text stops being a JSON array (commas between items
    included): nothing after that point can be trusted; and where text follows the array, which would be lost.
    """
    assert file.read(1) == b"["
    decoder, index, buffer, ended, pending = json.JSONDecoder(), 0, "", False, b""
    expected = "item or end"
    while True:
        buffer = buffer.lstrip(WHITE)
        if buffer.startswith("]") and expected != "item":
            _check_nothing_follows(path, buffer[1:].encode() + pending, file)
            return
        complete = False
        if expected == "comma or end":
            if buffer.startswith(","):
                buffer, expected = buffer[1:], "item"
                continue
            if buffer or ended:
                raise ValueError(f"{path} item {index}: not JSON (a comma or ] is missing); repair the file there")
        else:
            try:
                item, used = decoder.raw_decode(buffer)
                complete = ended or used < len(buffer)  # a number at the very end of the buffer may go on
            except RecursionError:
                raise ValueError(f"{path} item {index}: nested too deeply; write flatter JSON") from None
            except ValueError as error:
                if ended:
                    raise ValueError(f"{path} item {index}: not JSON ({error}); repair the file there") from None
        if complete:
            yield index, item
            buffer, index, expected = buffer[used:], index + 1, "comma or end"
            continue
        raw = file.read(max(ARRAY_CHUNK, len(buffer)))
        text, pending = _decode_prefix(path, pending + raw, final=not raw)
        buffer, ended = buffer + text, not raw


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
