"""Size and SHA-256 of every file of a checkpoint, kept in `checksums.json`, and the proof that they are still true.

A file is hashed on its way to the disk, from memory, and read back before the checkpoint counts as written. The read
goes past the page cache where the kernel lets go of it (posix_fadvise after fsync); where it does not, as on some
network file systems, the proof is of what was written and not of the medium. Loading reads every file anew.
"""

import hashlib
import io
import json
import os
import stat
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from pivotrl.policy.agree import together

MANIFEST = "checksums.json"
_BLOCK = 1 << 22
_DAMAGED = "is damaged: it does not have the bytes that were saved"


class DamagedCheckpoint(ValueError):
    """A file of a checkpoint is missing, or is not what was written; the message names it."""


@dataclass(frozen=True, slots=True)
class Entry:
    """What a file must be."""

    size: int
    """Bytes."""
    sha256: str


class HashedFile(io.RawIOBase):
    """A new file, hashed as it is written. Closing it makes it durable and reads it back."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: IO[bytes] = path.open("wb")
        self._hash, self._size = hashlib.sha256(), 0
        self.error: OSError | None = None
        """What `write` raised: torch.save turns it into a RuntimeError that does not say why."""

    def writable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._size

    def write(self, data: Any) -> int:
        try:
            count = self._file.write(data)
        except OSError as error:
            error.filename = str(self._path)
            self.error = error
            raise
        self._hash.update(data)
        self._size += count
        return count

    def settle(self) -> Entry:
        """Make the file durable, read it back and return what it must be.

        Raises:
            OSError: it cannot be written, for example for want of space.
            DamagedCheckpoint: what is read back is not what was written.
        """
        try:
            self._file.flush()
            os.fsync(self._file.fileno())
            _forget(self._file)
            self._file.close()
        except OSError as error:
            error.filename = str(self._path)
            raise
        entry = Entry(self._size, self._hash.hexdigest())
        check(self._path, entry)
        return entry


def write(path: Path, data: bytes) -> Entry:
    """Write a whole new file; see `HashedFile.settle`."""
    file = HashedFile(path)
    file.write(data)
    return file.settle()


def check(path: Path, entry: Entry) -> None:
    """Read a file and raise DamagedCheckpoint where it is not what it must be."""
    try:
        if not stat.S_ISREG(path.stat().st_mode):  # opening a pipe would wait for ever
            raise DamagedCheckpoint(f"{path}: not a file, but {MANIFEST} has it")
        with path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            if size != entry.size:
                raise DamagedCheckpoint(f"{path} {_DAMAGED} ({size} bytes found, {entry.size} expected)")
            found = hashlib.sha256()
            while block := file.read(_BLOCK):
                found.update(block)
            _forget(file)
    except OSError as error:
        raise DamagedCheckpoint(f"{path}: {error.strerror}, but {MANIFEST} has it") from None
    if found.hexdigest() != entry.sha256:
        raise DamagedCheckpoint(
            f"{path} {_DAMAGED} (SHA-256 {found.hexdigest()[:16]}... found, {entry.sha256[:16]}... expected)"
        )


def settle(path: Path) -> Entry:
    """Make a file durable that others wrote, and return what it is now."""
    with path.open("rb") as file:
        os.fsync(file.fileno())
        return Entry(os.fstat(file.fileno()).st_size, hashlib.file_digest(file, "sha256").hexdigest())


def write_manifest(folder: Path, entries: dict[str, Entry]) -> None:
    """Write `checksums.json`, which also holds its own."""
    files = {name: [entry.size, entry.sha256] for name, entry in sorted(entries.items())}
    write(folder / MANIFEST, json.dumps({"files": files, "sha256": _own(files)}, indent=1).encode())
    sync_folder(folder)


def read_manifest(folder: Path) -> dict[str, Entry]:
    """What every file of the checkpoint must be.

    Raises:
        DamagedCheckpoint: the manifest is missing or is not what was written.
    """
    path = folder / MANIFEST
    try:
        manifest = json.loads(path.read_bytes())
        files = manifest["files"]
        if manifest["sha256"] != _own(files):
            raise DamagedCheckpoint(
                f"{path} {_DAMAGED} (its own checksum is {manifest['sha256']!r:.20}, {_own(files)!r:.20} expected)"
            )
        for name, (size, sha256) in files.items():
            outside = name.startswith("/") or ".." in name.split("/")
            if outside or not isinstance(size, int) or not isinstance(sha256, str):
                raise TypeError(f"{name}: {size!r:.20}, {sha256!r:.20}")
        return {name: Entry(*entry) for name, entry in files.items()}
    except OSError as error:
        raise DamagedCheckpoint(f"{path}: {error.strerror}") from None
    except DamagedCheckpoint:
        raise
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise DamagedCheckpoint(f"{path}: not a list of checksums ({error!r:.100})") from None


def verify(folder: Path, group: Any) -> None:
    """Read every file of a checkpoint, each on one rank of `group`, and compare it with `checksums.json` (collective).

    Raises:
        DamagedCheckpoint: on every rank; it names the file, what was found and what was expected.
    """
    rank, ranks = group.rank(), group.size()

    def mine() -> None:
        entries = read_manifest(folder)
        needed = (".metadata", "common.pt", "metadata.json", *sorted(path.name for path in folder.glob("*.distcp")))
        for name in needed:
            if name not in entries:
                raise DamagedCheckpoint(f"{folder / name}: {MANIFEST} does not have it")
        for name in share(entries, rank, ranks):
            check(folder / name, entries[name])

    together(group, mine)


def share(entries: dict[str, Entry], rank: int, ranks: int) -> list[str]:
    """The files that a rank reads: largest first, each to the rank with the fewest bytes so far."""
    load = [0] * ranks
    mine = []
    for name in sorted(entries, key=lambda name: (-entries[name].size, name)):
        reader = load.index(min(load))
        load[reader] += entries[name].size + 1
        if reader == rank:
            mine.append(name)
    return mine


def sync_folder(folder: Path) -> None:
    """Make the names in a folder durable."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _own(files: dict[str, Iterable]) -> str:
    return hashlib.sha256(json.dumps(files, sort_keys=True).encode()).hexdigest()


def _forget(file: IO[bytes]) -> None:
    """Let the next read of the file come from the disk, where the system offers that."""
    if hasattr(os, "posix_fadvise"):
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
