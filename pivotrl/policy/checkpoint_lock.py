"""One training at a time in an output folder."""

import fcntl
import json
import os
import socket
import time
from pathlib import Path
from typing import IO

NAME = "lock"


class FolderLock:
    """Holds a folder for this process until `release`, or until the process ends in whatever way.

    The kernel keeps the lock (fcntl.lockf), so a killed run leaves none behind. Unlike flock's it is not passed on to
    forked workers, which may outlive the run for a moment. On NFS it needs the server's lock service, as current
    versions have by default; where a mount has none (`nolock`), two trainings on different machines do not see each
    other's. A process does not lock itself out.
    """

    def __init__(self, folder: Path) -> None:
        """Take the lock.

        Raises:
            ValueError: another process has it; it is named. Or the folder cannot be written.
        """
        path = folder / NAME
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._file: IO[str] | None = path.open("a+", encoding="ascii")
        except OSError as error:
            raise ValueError(f"{error.filename}: {error.strerror}; choose another output folder") from None
        try:
            fcntl.lockf(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            holder = _holder(path)
            self._file.close()
            raise ValueError(
                f"{folder.parent}: another training writes there ({holder or error.strerror}); "
                "wait for it, end it, or choose another output folder"
            ) from None
        self._file.truncate(0)
        about = {"pid": os.getpid(), "host": socket.gethostname(), "started": time.strftime("%Y-%m-%d %H:%M:%S")}
        self._file.write(json.dumps(about))
        self._file.flush()

    def release(self) -> None:
        """Let others have the folder."""
        if self._file is not None:
            self._file.close()
            self._file = None


def refuse_if_held(folder: Path) -> None:
    """Raise ValueError where another training has the folder. Only rank 0 looks: ranks would meet each other."""
    if os.environ.get("RANK", "0") == "0" and (folder / NAME).exists():
        FolderLock(folder).release()


def _holder(path: Path) -> str:
    try:
        about = json.loads(path.read_text(encoding="ascii"))
        return f"process {about['pid']} on {about['host']}, since {about['started']}"
    except (OSError, ValueError, KeyError, TypeError):
        return ""  # it is only just writing it
