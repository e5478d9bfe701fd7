"""The folder that a conversion writes: whole or not there, and never in the place of something else."""

import contextlib
import fcntl
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

SUFFIX = ".convert_hf.partial"
"""Behind the name of the folder while it is written. What has this name is removed: it is nobody's but ours."""


def refuse_used(out: Path) -> None:
    """Stop before the work if `out` holds something or cannot be made.

    Raises:
        ValueError: it does, or is a link, or a folder above it is a file, or may not be written.
    """
    try:
        if out.is_symlink():
            raise ValueError(f"--out {out}: it is a link, which a finished folder cannot replace; name a new folder")
        if out.exists() and (not out.is_dir() or any(out.iterdir())):
            raise ValueError(f"--out {out}: it exists and is not an empty folder; name a new one")
        above = next(folder for folder in out.absolute().parents if folder.exists())
    except OSError as error:  # a name that is too long, a folder that may not be read
        raise ValueError(f"--out {out}: {error.strerror}; name another folder") from None
    if not above.is_dir():
        raise ValueError(f"--out {out}: {above} is a file, not a folder; name another folder")
    if not os.access(above, os.W_OK | os.X_OK):
        raise ValueError(f"--out {out}: {above} may not be written; name another folder")


@contextlib.contextmanager
def written_whole(out: Path, source: Path) -> Iterator[Path]:
    """An empty folder beside `out`, which takes its name when the work is done, and is removed where it fails.

    What a killed command left there is removed first. A command that is at work on it keeps it locked.

    Args:
        out: as `refuse_used` let it pass.
        source: what the work reads.

    Raises:
        ValueError: the folder cannot be made or written (a full disk), or another command writes it.
    """
    unfinished = out.with_name(out.name + SUFFIX)
    if source.absolute().is_relative_to(unfinished.absolute()):
        raise ValueError(f"--out {out}: {source} is the unfinished folder of that name; rename it, or name another")
    with contextlib.ExitStack() as held:
        held.callback(os.close, _locked(unfinished, out))
        try:
            for left in unfinished.iterdir():
                shutil.rmtree(left) if left.is_dir() and not left.is_symlink() else left.unlink()
            yield unfinished
            if out.exists():
                out.rmdir()  # empty: refuse_used saw to it
            unfinished.rename(out)
        except BaseException as error:
            shutil.rmtree(unfinished, ignore_errors=True)
            if (reason := _not_written(error)) is not None:
                raise ValueError(f"--out {out}: it could not be written ({reason})") from error
            raise


def _locked(unfinished: Path, out: Path) -> int:
    """Make the folder and keep others out of it for as long as the descriptor is open, or the process lives."""
    try:
        unfinished.mkdir(parents=True, exist_ok=True)
        folder = os.open(unfinished, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError as error:
        raise ValueError(f"--out {out}: cannot make {unfinished} ({error.strerror}); name another folder") from None
    try:
        fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(folder)
        raise ValueError(f"--out {out}: another command writes {unfinished}; wait for it, or name another") from None
    return folder


def _not_written(error: BaseException | None) -> str | None:
    """The system's reason, where that is what went wrong: torch and safetensors say it in errors of their own."""
    from safetensors import SafetensorError

    while error is not None and not isinstance(error, ValueError):
        if isinstance(error, OSError):
            return error.strerror or str(error)
        if isinstance(error, SafetensorError):
            return str(error)
        error = error.__context__
    return None
