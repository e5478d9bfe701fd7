"""`pool.jsonl` beside `pivots.jsonl`: the training split's other turns, profiled ones and unprofiled ones.

They have a pivot's form, so that a turn can become one without its trajectory's file being read again; an unprofiled
one has a profile without rewards. Only offsets are held in memory.
"""

import hashlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pivotrl.pivots.store import PivotFile
from pivotrl.trajectories.records import Pivot, Profile, Rejected, Turn
from pivotrl.trajectories.store import open_for_reading, parse_json, read_jsonl, write_json, write_jsonl
from pivotrl.trajectories.turns import TurnReader

if TYPE_CHECKING:
    from pivotrl.config import RunConfig
    from pivotrl.pivots.score import Scorer
    from pivotrl.trajectories.template import ChatTemplate


class Pool(Sequence[Pivot]):
    """The pivots, and behind them the other turns."""

    def __init__(self, folder: Path):
        self._parts = PivotFile(folder / "pivots.jsonl"), PivotFile(folder / "pool.jsonl")

    @property
    def pivots(self) -> int:
        return len(self._parts[0])

    def __len__(self) -> int:
        return sum(map(len, self._parts))

    def __getitem__(self, index: Any) -> Any:
        pivots, others = self._parts
        return pivots[index] if index < len(pivots) else others[index - len(pivots)]


def write_pool(config: "RunConfig", folder: Path, scorer: "Scorer", template: "ChatTemplate") -> None:
    """Write `pool.jsonl` into a selection's folder, where it is not there yet or is of another selection.

    Raises:
        ValueError: `trajectories.files` are not those that the pivots were selected from.
    """
    made_of = {
        "template_hash": template.hash,
        "verifier": config.verifier.model_dump(mode="json"),
        "longest_prompt": config.rollout.max_model_len - config.rollout.max_new_tokens,
        "seed": config.seed,
        "trajectories": config.trajectories.model_dump(mode="json"),
        "content": {name: _digest(folder / name) for name in ("pivots.jsonl", "profile.jsonl")},
    }
    note = folder / "pool.json"
    if note.exists() and parse_json(note.read_text()).get("made_of") == made_of:
        return
    left_out = {"turns": 0}
    count = write_jsonl(folder / "pool.jsonl", _others(config, folder, scorer, template, left_out))
    write_json(note, {"made_of": made_of, "turns": count, "unusable_turns": left_out["turns"]})


def _digest(path: Path) -> str:
    with open_for_reading(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _others(
    config: "RunConfig", folder: Path, scorer: "Scorer", template: "ChatTemplate", left_out: dict[str, int]
) -> Iterator[dict[str, Any]]:
    """Walk the turns, the profiles and the pivots side by side; all are in file order."""
    pivots = (row["turn"]["id"] for _, row in read_jsonl(folder / "pivots.jsonl"))
    profiles = (Profile.from_json(row) for _, row in read_jsonl(folder / "profile.jsonl"))
    next_pivot, next_profile = next(pivots, None), next(profiles, None)
    for turn in TurnReader(config.trajectories, config.seed):
        if isinstance(turn, Rejected) or turn.split != "train":
            continue
        profile = Profile(turn.id, [], [], 0.0, 0.0, config.model.path, {})
        if next_profile is not None and turn.id == next_profile.id:
            profile, next_profile = next_profile, next(profiles, None)
        if turn.id == next_pivot:
            next_pivot = next(pivots, None)
        elif (prompt_ids := _prompt(config, turn, scorer, template)) is None:
            left_out["turns"] += 1
        else:
            yield Pivot(turn, profile, prompt_ids, template.hash).to_json()
    if next_pivot is not None or next_profile is not None:
        raise ValueError(
            f"{folder}: turn {next_pivot or next_profile.id!r} is not in trajectories.files; give the files, the seed "
            "and the heldout_share that the pivots were selected with, or select them anew"
        )


def _prompt(config: "RunConfig", turn: Turn, scorer: "Scorer", template: "ChatTemplate") -> list[int] | None:
    """The prompt's ids; None where the turn cannot be sampled or judged (`rejected.jsonl` says why of those that the
    selection met)."""
    try:
        scorer.check(turn)
        prompt_ids = template.encode(turn.messages, turn.tools)
    except ValueError:
        return None
    return prompt_ids if len(prompt_ids) <= config.rollout.max_model_len - config.rollout.max_new_tokens else None
