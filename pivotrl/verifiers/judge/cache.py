"""Verdicts of judges on disk, by the hash of the question.

One SQLite file, which any number of processes of one machine may use at a time (write-ahead log, short transactions, a
busy time-out). It belongs on a local disk: SQLite's write-ahead log does not work over a network file system.
"""

import contextlib
import secrets
import sqlite3
import threading
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from pivotrl.verifiers.judge.question import Answer

FILE = "judge.sqlite3"
"""Name of the file in a folder."""
BUSY_SECONDS = 60.0
"""How long to wait for another process that writes."""
_VERSION = 1
_AT_A_TIME = 500  # keys of one look-up; SQLite takes some thousands of parameters


class Kept(NamedTuple):
    """A judge's answer as it is kept."""

    answer: Answer
    prompt_tokens: int
    completion_tokens: int


class AnswerCache:
    """See the module's docstring."""

    def __init__(self, path: str):
        """Open the file, or `judge.sqlite3` in the folder, and make it where there is none.

        Raises ValueError where it cannot be made, or is no cache of this version.
        """
        try:
            place = Path(path).expanduser()
        except RuntimeError as error:
            raise ValueError(f"verifier.params.cache: {path}: {error} Name another") from None
        self.path = place if place.suffix == ".sqlite3" and not place.is_dir() else place / FILE
        self._lock = threading.Lock()
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ValueError(f"verifier.params.cache: {path} cannot be made ({error.strerror}); name another") from None
        with self._faults():
            self._connection = sqlite3.connect(
                self.path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False
            )
            self._use_log()
            self._connection.execute("PRAGMA synchronous=NORMAL")
            self._set_up()

    def _use_log(self) -> None:
        """Turn the write-ahead log on. SQLite's busy time-out does not cover this, so that processes which make a cache
        at the same time would fail."""
        deadline = time.monotonic() + BUSY_SECONDS
        while True:
            try:
                self._connection.execute("PRAGMA journal_mode=WAL")
                return
            except sqlite3.OperationalError as error:
                if "locked" not in str(error) or time.monotonic() > deadline:
                    raise
                time.sleep(0.02)

    def _set_up(self) -> None:
        self._connection.execute("BEGIN IMMEDIATE")
        (version,) = self._connection.execute("PRAGMA user_version").fetchone()
        if version not in (0, _VERSION):
            self._connection.execute("ROLLBACK")
            raise ValueError(
                f"verifier.params.cache: {self.path} is of version {version}, not {_VERSION}; name another"
            )
        self._connection.execute(
            "CREATE TABLE IF NOT EXISTS answers (key TEXT PRIMARY KEY, answer TEXT NOT NULL, prompt_tokens INTEGER NOT "
            "NULL, completion_tokens INTEGER NOT NULL) WITHOUT ROWID"
        )
        self._connection.execute(
            "CREATE TABLE IF NOT EXISTS secret (one INTEGER PRIMARY KEY CHECK (one = 1), value BLOB)"
        )
        self._connection.execute("INSERT OR IGNORE INTO secret VALUES (1, ?)", (secrets.token_bytes(32),))
        self._connection.execute(f"PRAGMA user_version = {_VERSION}")
        self._connection.execute("COMMIT")

    def secret(self) -> bytes:
        """Drawn when the file was made, so that all who use it ask the same questions letter by letter."""
        with self._lock, self._faults():
            (value,) = self._connection.execute("SELECT value FROM secret").fetchone()
        return value

    def find(self, keys: Iterable[str]) -> dict[str, Kept]:
        """Those that are kept."""
        keys = list(keys)
        found: dict[str, Kept] = {}
        with self._lock, self._faults():
            for start in range(0, len(keys), _AT_A_TIME):
                part = keys[start : start + _AT_A_TIME]
                marks = ",".join("?" * len(part))
                rows = self._connection.execute(f"SELECT * FROM answers WHERE key IN ({marks})", part)
                found |= {key: Kept(*values) for key, *values in rows}
        return found

    def keep(self, key: str, kept: Kept) -> None:
        """Add one answer; of two processes that ask at a time, the first one's stays."""
        with self._lock, self._faults():
            self._connection.execute("INSERT OR IGNORE INTO answers VALUES (?, ?, ?, ?)", (key, *kept))

    def close(self) -> None:
        with self._lock:
            self._connection.close()

    @contextlib.contextmanager
    def _faults(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.DatabaseError as error:
            raise ValueError(
                f"verifier.params.cache: {self.path} cannot be used ({error}); delete it, or name another file on a "
                "local disk"
            ) from None
