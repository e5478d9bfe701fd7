"""The durable log of a selection: what it was started with, then one line for each finished chunk.

A kill loses at most the chunks in flight. The log holds wall-clock seconds, so its bytes differ from run to run; the
files made from it at the end do not.
"""

import hashlib
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from pivotrl.config import RunConfig
from pivotrl.pivots.select import make_profile
from pivotrl.trajectories.records import Profile
from pivotrl.trajectories.store import append_jsonl, drop_incomplete_line, open_for_reading, scan_jsonl

DECIDES = {
    "model": ("path", "dtype"),
    "trajectories": ("files", "format", "min_reward", "tools", "heldout_share", "row_verifiers"),
    "verifier": ("name", "preset", "params"),
    "pivots": ("samples", "profiling", "temperature", "top_p", "limit", "chunk"),
    "rollout": ("tensor", "max_model_len", "max_new_tokens", "max_num_seqs", "tool_parser", "reasoning_parser"),
}
"""Keys that change what a profile holds. `pivots.max_mean` and `pivots.keep` are not among them: they only choose from
finished profiles."""


class ProgressLog:
    """`progress.jsonl` in the output folder."""

    def __init__(self, folder: Path):
        self.path = folder / "progress.jsonl"

    def check(self, header: dict[str, Any]) -> bool:
        """Whether there is a log; raises ValueError where it was not started with `header`, naming the first key that
        differs. Drops what a kill left of a line, and reads the first line only."""
        if self.path.exists():
            drop_incomplete_line(self.path)
        found = next(self._rows(), None) if self.path.exists() else None
        if found is None:
            return False
        if "seed" not in found[1]:
            raise self.fault(1, "not the first line of a selection")
        for key in header:
            if found[1].get(key) != header[key]:
                raise ValueError(
                    f"{self.path.parent}: this selection was started with {key}={found[1].get(key)!r}, and now it is "
                    f"{header[key]!r}; set it back to continue, or give another --out"
                )
        return True

    def open(self, header: dict[str, Any], turns: int) -> int:
        """Start the log, or check that it was started with the same `header` and holds whole chunks of `turns` turns,
        in order. Returns the number of finished chunks.

        Raises ValueError that names the key, or the line, and the remedy.
        """
        if not self.check(header):
            append_jsonl(self.path, [header])
            return 0
        finished = 0
        for line, row in islice(self._rows(), 1, None):
            size = min(header["pivots.chunk"], turns - finished * header["pivots.chunk"])
            if fault := _chunk_fault(row, finished, size, header["pivots.samples"]):
                raise self.fault(line, fault)
            finished += 1
        return finished

    def fault(self, line: int | str, found: str) -> ValueError:
        """The error for a line that no run of this program left behind."""
        return ValueError(
            f"{self.path}:{line}: {found}; the log was damaged or edited: delete {self.path.name} and start the "
            "selection anew, or give another --out"
        )

    def append(self, results: list[dict[str, Any]]) -> None:
        """Add finished chunks, in order; on disk when this returns."""
        append_jsonl(self.path, results)

    def discard(self) -> None:
        """Remove the log, so that the next selection in this folder starts anew."""
        self.path.unlink()

    def results(self) -> Iterator[dict[str, Any]]:
        """The finished chunks, in order."""
        return (row for _, row in islice(self._rows(), 1, None))

    def _rows(self) -> Iterator[tuple[int, dict[str, Any]]]:
        for line, row, fault in scan_jsonl(self.path):
            if not isinstance(row, dict):
                raise self.fault(line, fault or f"found a {type(row).__name__} in place of an object")
            yield line, row


def _chunk_fault(row: dict[str, Any], number: int, turns: int, samples: int) -> str:
    """What is wrong with chunk `number` of `turns` turns; empty where it is whole."""
    if row.get("chunk") != number:
        return f"expected chunk {number}, found chunk {row.get('chunk')!r}"
    try:
        profiles = [Profile.from_json(profile) for profile in row["profiles"]]
        ids = [*(profile.id for profile in profiles), *(rejected["id"] for rejected in row["rejected"])]
        usual = all(make_profile(**_made_from(profile)) == profile for profile in profiles)
        usual &= all(isinstance(reason, str) for profile in profiles for reason in profile.reasons)
        counted = all(row[key] >= 0 for key in ("prompt_tokens", "sampled_tokens", "seconds"))
    except (KeyError, TypeError, ValueError, ZeroDivisionError):
        return f"chunk {number} lacks a part or holds one of another type"
    if len(ids) != turns:
        return f"chunk {number} holds {len(ids)} turns in place of {max(turns, 0)}"
    if (
        not usual
        or not counted
        or any(not len(profile.rewards) == len(profile.reasons) == samples for profile in profiles)
    ):
        return f"chunk {number} holds a profile that its {samples} rewards do not give"
    return ""


def _made_from(profile: Profile) -> dict[str, Any]:
    return {
        "turn_id": profile.id,
        "rewards": profile.rewards,
        "reasons": profile.reasons,
        "policy": profile.policy,
        "sampling": profile.sampling,
    }


def header_of(config: RunConfig, template_hash: str | None = None) -> dict[str, Any]:
    """What a selection's profiles depend on: settings, the template (left out where it is not known yet), and the
    content of the files."""
    header = {"seed": config.seed}
    if template_hash is not None:
        header["model.chat_template (hash)"] = template_hash
    for section, keys in DECIDES.items():
        header |= {f"{section}.{key}": getattr(getattr(config, section), key) for key in keys}
    for path in (*config.trajectories.files, *filter(None, [config.trajectories.tools])):
        with open_for_reading(path) as file:
            header[f"content of {path} (sha256)"] = hashlib.file_digest(file, "sha256").hexdigest()
    return header
