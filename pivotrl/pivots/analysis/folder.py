"""A finished selection's folder: its settings, its profiles, and the trajectories that it was made from."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pivotrl.pivots.progress import FOLDER, HEADER
from pivotrl.trajectories.config import TrajectoriesConfig
from pivotrl.trajectories.faults import excerpt
from pivotrl.trajectories.records import Profile
from pivotrl.trajectories.store import parse_json, read_jsonl

_PREFIX = "trajectories."


@dataclass(frozen=True, slots=True)
class Selection:
    folder: Path
    seed: int
    trajectories: TrajectoriesConfig
    model: str
    """`model.path` of the profiled policy."""
    template_hash: str
    max_mean: float
    """lambda of the selection."""
    room: int
    """Longest prompt that the context takes beside an action, in tokens."""
    summary: dict[str, Any]

    def profiles(self) -> Iterator[Profile]:
        """Every profiled turn's profile, in file order. Raises ValueError at the first line that is none."""
        path = self.folder / "profile.jsonl"
        for line, row in read_jsonl(path):
            try:
                profile = Profile.from_json(row)
                usable = len(profile.rewards) == len(profile.reasons) >= 2 and isinstance(profile.id, str)
                usable &= all(isinstance(one, str) for one in profile.reasons)
                usable &= all(isinstance(one, int | float) and 0 <= one <= 1 for one in profile.rewards)
            except TypeError:
                usable = False
            if not usable:
                raise ValueError(f"{path}:{line}: not a profile ({excerpt(row)}); select the pivots anew")
            yield profile

    def dropped(self) -> int:
        """Turns that the context limit kept out of profiling."""
        rows = read_jsonl(self.folder / "rejected.jsonl")
        return sum(row.get("reason") == "prompt_too_long" for _, row in rows)


def open_selection(folder: str | Path, files: list[str] | None = None) -> Selection:
    """The selection in a folder.

    Args:
        folder: `pivots` in a run's folder, or the run's folder itself.
        files: where the trajectories are now, in place of the paths that the selection was started with.

    Raises:
        ValueError: there is no finished selection, or one of its trajectory files is not there.
    """
    here = Path(folder)
    if (here / "pivots" / "summary.json").is_file():
        here = here / "pivots"
    for name in (f"{FOLDER}/{HEADER}", "profile.jsonl", "rejected.jsonl", "summary.json"):
        if not (here / name).is_file():
            raise ValueError(
                f"{here / name}: no such file; give the folder of a finished selection (--out of select_pivots, or "
                "`pivots` in the run's folder)"
            )
    try:
        header = parse_json((here / FOLDER / HEADER).read_text(encoding="utf-8"))
        summary = json.loads((here / "summary.json").read_bytes())
        section = {key.removeprefix(_PREFIX): value for key, value in header.items() if key.startswith(_PREFIX)}
        found = Selection(
            folder=here,
            seed=header["seed"],
            trajectories=TrajectoriesConfig.model_validate(section | ({"files": files} if files else {})),
            model=header["model.path"],
            template_hash=header["model.chat_template (hash)"],
            max_mean=float(summary["max_mean"]),
            room=header["rollout.max_model_len"] - header["rollout.max_new_tokens"],
            summary=summary,
        )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        said = " ".join(str(error).split())
        raise ValueError(f"{here}: not a selection's folder ({said:.200}); select the pivots anew") from None
    for path in found.trajectories.files:
        if not Path(path).is_file():
            raise ValueError(
                f"{path}: the selection in {here} was made from this file, and it is not there; start in the folder "
                "where the selection was started, or say where the files are: --trajectories FILE..."
            )
    return found
