"""One writer at a time in a selection's folder."""

import fcntl
import os
from pathlib import Path
from types import TracebackType
from typing import Self


class FolderLock:
    """An exclusive lock on a folder, from `take` to the end of the `with` block; the system frees it when a process
    dies."""

    def __init__(self, folder: Path):
        self._folder = folder
        self._file: int | None = None

    def __enter__(self) -> Self:
        return self

    def take(self) -> None:
        """Make the folder and lock it; nothing where that is done. Raises ValueError where another process has it, or
        where there can be no such folder."""
        if self._file is not None:
            return
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            file = os.open(self._folder / "selection.lock", os.O_WRONLY | os.O_CREAT, 0o644)
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            raise ValueError(
                f"--out: {self._folder} is no folder to write into ({reason}); give a new folder, or one that is yours"
            ) from None
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(file)
            if isinstance(error, BlockingIOError):
                raise ValueError(
                    f"{self._folder}: another selection is writing there; wait until it ends, or give another --out"
                ) from None
            raise ValueError(
                f"--out: {self._folder} cannot be locked ({error.strerror}); give a folder on a local disk"
            ) from None
        self._file = file

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._file is not None:
            fcntl.flock(self._file, fcntl.LOCK_UN)  # children may hold the file open
            os.close(self._file)
            self._file = None
