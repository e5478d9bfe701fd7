"""A selection's `pivots.jsonl` as a sequence that keeps only offsets in memory."""

from array import array
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pivotrl.command import to_paste
from pivotrl.trajectories.actions import check_action
from pivotrl.trajectories.faults import excerpt
from pivotrl.trajectories.records import Pivot, Profile, Turn
from pivotrl.trajectories.store import parse_json


class PivotFile(Sequence[Pivot]):
    """Reads pivots from disk when they are asked for: eight bytes of memory a pivot, whatever its history's length."""

    def __init__(self, path: str | Path):
        """Index the file once. Raises ValueError where it cannot be read."""
        self._path = Path(path)
        if not self._path.is_file():
            raise ValueError(
                f"{path}: no pivots there; run {to_paste('tools/select_pivots.py')} with this configuration first"
            )
        self._offsets = array("Q")
        with open(self._path, "rb") as file:
            offset = 0
            for line in file:
                self._offsets.append(offset)
                offset += len(line)

    def __len__(self) -> int:
        return len(self._offsets)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return [self[position] for position in range(*index.indices(len(self)))]
        with open(self._path, "rb") as file:
            file.seek(self._offsets[index])
            line = file.readline()
        try:
            pivot = Pivot.from_json(parse_json(line.decode("ascii")))
            _check(pivot)
        except (ValueError, TypeError, KeyError) as error:
            raise ValueError(f"{self._path}:{index + 1}: not a pivot ({error}); select the pivots anew") from None
        return pivot


def check_lengths(path: str | Path, max_model_len: int, max_new_tokens: int) -> None:
    """Stop where a pivot's prompt leaves no room for its samples: the file was selected with other limits.

    The numbers are counted in the text, which takes a hundredth of the time of reading them.

    Raises:
        ValueError: it says how many do not fit, and what would.
    """
    room, longest, too_long, first = max_model_len - max_new_tokens, 0, 0, 0
    with open(path, "rb") as file:
        for number, line in enumerate(file, 1):
            begin = line.rfind(b'"prompt_ids"')  # in a string its quotes would be escaped
            size = line.count(b",", begin, line.find(b"]", begin)) + 1
            if begin >= 0 and size > room:
                too_long, longest, first = too_long + 1, max(longest, size), first or number
    if too_long:
        raise ValueError(
            f"{path}:{first}: {too_long} pivot{'s' * (too_long > 1)} from this line on, with up to {longest:,} prompt "
            f"tokens, do not fit: rollout.max_model_len {max_model_len:,} less rollout.max_new_tokens "
            f"{max_new_tokens:,} leaves {room:,}; set rollout.max_model_len to {longest + max_new_tokens:,} or more, "
            "as they were selected, lower rollout.max_new_tokens, or select the pivots anew"
        )


KINDS = {
    Turn: {"id": str, "turn_index": int, "messages": list, "tools": list, "verifier": dict, "split": str},
    Profile: {"id": str, "rewards": list, "mean": int | float, "variance": int | float},
    Pivot: {"template_hash": str, "prompt_ids": list},
}
"""Types of the fields that training relies on; `from_json` takes any."""


def _check(pivot: Pivot) -> None:
    """Raise ValueError where a line that parsed cannot be trained on."""
    for record in (pivot.turn, pivot.profile, pivot):
        for key, kind in KINDS[type(record)].items():
            if not isinstance(value := getattr(record, key), kind):
                raise ValueError(f"{key} is {excerpt(value)}")
    if not pivot.prompt_ids or any(type(index) is not int or index < 0 for index in pivot.prompt_ids):
        raise ValueError(f"prompt_ids is {excerpt(pivot.prompt_ids)}, not a list of token ids from 0 on")
    check_action(pivot.turn.expert)
