"""What a user is told when a file cannot be written. Imports nothing heavy."""

import contextlib
import errno
from collections.abc import Iterator
from pathlib import Path
from typing import IO

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


@contextlib.contextmanager
def naming(path: str | Path) -> Iterator[None]:
    """Around writes to `path`: an OSError in here names it, which Python leaves out of all but `open`'s."""
    try:
        yield
    except OSError as error:
        error.filename = error.filename or str(path)
        raise


def describe(error: OSError) -> str:
    """One line: the file, what is wrong and, where the disk or a quota is full, what to do."""
    where = f"{error.filename}: " if error.filename else ""
    remedy = "; free space there and start again: what was saved is kept" if error.errno in _FULL else ""
    return f"{where}{error.strerror or error}{remedy}"


def write_all(file: IO[bytes], data: bytes) -> None:
    """Write to an unbuffered file, which may take less at a time. A full disk is met here, and not again in `close`."""
    rest = memoryview(data)
    while rest:
        rest = rest[file.write(rest) :]
