"""The folders of a run's checkpoints: which one counts, which ones are kept, and what a killed run leaves behind.

`step_000020/` is a complete checkpoint and `latest` names the one that a run continues from. Every change is a rename
or comes before one, and names are made durable (fsync of the folder), so that a run killed at any moment leaves:

- `*.partial`: a checkpoint that was being written, or removed; it never counted, or no longer does. Removed.
- `*.replaced`: the one whose place a new checkpoint of the same step was about to take. Put back where it did not.
- `*.damaged`: set aside by `checkpoint.fallback`. Never touched.
"""

import json
import math
import os
import re
import shutil
from pathlib import Path

from pivotrl.policy.checkpoint_checksums import MANIFEST, DamagedCheckpoint, sync_folder

_STEP = re.compile(r"step_(\d{6,})")


def name_of(step: int) -> str:
    return f"step_{step:06d}"


def step_of(path: Path) -> int:
    """The number of finished steps that a checkpoint's name tells."""
    match = _STEP.fullmatch(path.name)
    assert match, path
    return int(match[1])


def complete(folder: Path) -> list[Path]:
    """Every complete checkpoint, oldest first."""
    found = [path for path in folder.glob("step_*") if _STEP.fullmatch(path.name) and (path / MANIFEST).is_file()]
    return sorted(found, key=step_of)


def newest(folder: Path) -> Path | None:
    """The checkpoint that a run continues from: the one that `latest` names. None where there is none.

    A run killed before it wrote its first `latest` has one all the same.

    Raises:
        DamagedCheckpoint: `latest` names none that is there.
    """
    marker, there = folder / "latest", complete(folder)
    if not marker.exists():
        return there[-1] if there else None
    try:
        name = marker.read_text(encoding="ascii").strip()
    except (OSError, ValueError) as error:
        raise DamagedCheckpoint(f"{marker}: cannot be read ({error!r:.100})") from None
    if not _STEP.fullmatch(name) or not (folder / name).is_dir():
        raise DamagedCheckpoint(f"{marker}: it names {name!r:.40}, and there is no such checkpoint")
    return folder / name


def clean(folder: Path) -> None:
    """Remove what a killed run left unfinished."""
    for path in folder.glob("*.partial"):
        shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
    for path in folder.glob("*.replaced"):
        home = path.with_suffix("")
        if home.exists():
            _remove(path)
        else:
            path.rename(home)


def start(folder: Path, step: int) -> Path:
    """Make an empty folder to write a checkpoint into."""
    partial = folder / f"{name_of(step)}.partial"
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    return partial


def publish(partial: Path) -> Path:
    """Let a finished folder be the newest checkpoint, for good. Returns its folder."""
    folder, target = partial.parent, partial.with_suffix("")
    replaced = target.with_suffix(".replaced")
    if target.exists():
        target.rename(replaced)
    partial.rename(target)
    sync_folder(folder)
    point(folder / "latest", target)
    if replaced.exists():
        _remove(replaced)
    return target


def point(marker: Path, target: Path) -> None:
    """Let `latest` or `best` name a checkpoint, at once and for good."""
    temporary = marker.with_name(f"{marker.name}.partial")
    with temporary.open("w", encoding="ascii") as file:
        file.write(target.name)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(marker)
    sync_folder(marker.parent)


def rotate(target: Path, keep: int, keep_best: int) -> None:
    """Remove all but the newest `keep` and the best `keep_best` checkpoints up to `target`, and let `best` name the
    best one. Newer ones are of a branch that was left when someone pointed `latest` back: not this run's to remove, as
    is one whose run.json cannot be read."""
    folder = target.parent
    mine = [path for path in complete(folder) if step_of(path) <= step_of(target)]
    rewards = {path: _reward(path) for path in mine}
    ranked = sorted((path for path in mine if isinstance(rewards[path], float)), key=lambda path: rewards[path])
    best = ranked[-keep_best:] if keep_best else []
    if best:
        point(folder / "best", best[-1])
    for path in mine[:-keep]:
        if path not in best and rewards[path] != "unreadable":
            _remove(path)


def give_up(partial: Path) -> Path | None:
    """Remove a checkpoint that could not be written, and return the one that a run would continue from."""
    shutil.rmtree(partial, ignore_errors=True)
    return newest(partial.parent)


def before(folder: Path, damaged: Path | None) -> Path | None:
    """The newest complete checkpoint before a damaged one; of all, where it is `latest` itself that is damaged."""
    older = [path for path in complete(folder) if damaged is None or step_of(path) < step_of(damaged)]
    return older[-1] if older else None


def set_aside(folder: Path, damaged: Path | None, older: Path) -> Path | None:
    """Let `older` be the newest, and rename the damaged one. Returns its new folder."""
    point(folder / "latest", older)
    if damaged is None:
        return None
    number = len(list(folder.glob(f"{damaged.name}.damaged*")))
    aside = damaged.rename(damaged.with_name(f"{damaged.name}.damaged{number or ''}"))
    sync_folder(folder)
    return aside


def _reward(path: Path) -> float | str | None:
    try:
        reward = json.loads((path / "run.json").read_bytes())["reward"]
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return "unreadable"
    return float(reward) if isinstance(reward, int | float) and math.isfinite(reward) else None


def _remove(path: Path) -> None:
    """Remove a checkpoint; killed on the way, no half of it keeps its name."""
    doomed = path.with_name(f"{path.name}.partial")
    path.rename(doomed)
    shutil.rmtree(doomed)
