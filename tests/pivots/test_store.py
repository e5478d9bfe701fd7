"""Lengths of pivots' prompts, counted in the file's text."""

from pathlib import Path

import pytest

from pivotrl.pivots.store import check_lengths
from pivotrl.trajectories.records import Pivot, Profile, Turn
from pivotrl.trajectories.store import write_jsonl


def write(folder: Path, lengths: list[int]) -> Path:
    """Pivots of such prompts, whose texts and metadata speak of prompt ids, too."""
    said = [{"role": "user", "content": '"prompt_ids":[1,2,3,4,5,6,7,8,9], \\"prompt_ids\\"'}]
    rows = []
    for index, length in enumerate(lengths):
        name, more = f"t{index}", {"prompt_ids": list(range(50))}
        turn = Turn(name, name, 0, 1, said, [], {"type": "message", "content": "x"}, {}, "s", "train", more)
        profile = Profile(name, [1.0, 0.0], ["a", "b"], 0.5, 0.25, "p", {})
        rows.append(Pivot(turn, profile, [7] * length, "h").to_json())
    write_jsonl(folder / "pivots.jsonl", rows)
    return folder / "pivots.jsonl"


def test_prompts_that_leave_room_pass(tmp_path: Path) -> None:
    check_lengths(write(tmp_path, [1, 12, 9]), 20, 8)


def test_prompts_that_do_not_fit_are_counted_and_told_what_would_do(tmp_path: Path) -> None:
    file = write(tmp_path, [1, 13, 9, 1200])
    said = r"pivots.jsonl:2: 2 pivots from this line on, with up to 1,200 prompt tokens, do not fit: .* leaves 12; "
    with pytest.raises(ValueError, match=said + r"set rollout.max_model_len to 1,208 or more"):
        check_lengths(file, 20, 8)
    check_lengths(file, 1208, 8)
    with pytest.raises(ValueError, match="1 pivot from"):
        check_lengths(file, 1207, 8)
