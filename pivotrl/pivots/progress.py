"""The durable log of a selection: what it was started with, then one line for each finished chunk.

A kill loses at most the chunks in flight. The log holds wall-clock seconds, so its bytes differ from run to run; the
files made from it at the end do not.
"""

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pivotrl.config import RunConfig
from pivotrl.trajectories.store import append_jsonl, drop_incomplete_line, open_for_reading, read_jsonl

DECIDES = {
    "model": ("path", "dtype"),
    "trajectories": ("files", "format", "min_reward", "tools", "heldout_share"),
    "verifier": ("name", "params"),
    "pivots": ("samples", "temperature", "top_p", "limit", "chunk"),
    "rollout": ("tensor", "max_model_len", "max_new_tokens", "max_num_seqs", "tool_parser", "reasoning_parser"),
}
"""Keys that change what a profile holds. `pivots.max_mean` is not among them: it only chooses from finished
profiles."""


class ProgressLog:
    """`progress.jsonl` in the output folder."""

    def __init__(self, folder: Path):
        self.path = folder / "progress.jsonl"

    def open(self, header: dict[str, Any]) -> int:
        """Start the log, or check that it was started with the same `header`. Returns the number of finished chunks.

        Raises ValueError that names the first key that differs.
        """
        if self.path.exists():
            drop_incomplete_line(self.path)
        rows = read_jsonl(self.path) if self.path.exists() else iter(())
        found = next(rows, None)
        if found is None:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            append_jsonl(self.path, [header])
            return 0
        for key in header:
            if found[1].get(key) != header[key]:
                raise ValueError(
                    f"{self.path.parent}: this selection was started with {key}={found[1].get(key)!r}, and now it is "
                    f"{header[key]!r}; set it back to continue, or give another --out"
                )
        return sum(1 for _ in rows)

    def append(self, results: list[dict[str, Any]]) -> None:
        """Add finished chunks, in order; on disk when this returns."""
        append_jsonl(self.path, results)

    def results(self) -> Iterator[dict[str, Any]]:
        """The finished chunks, in order."""
        for line, row in read_jsonl(self.path):
            if line > 1:
                yield row


def header_of(config: RunConfig, template_hash: str) -> dict[str, Any]:
    """What a selection's profiles depend on: settings, the template, and the content of the files."""
    header = {"seed": config.seed, "model.chat_template (hash)": template_hash}
    for section, keys in DECIDES.items():
        header |= {f"{section}.{key}": getattr(getattr(config, section), key) for key in keys}
    for path in (*config.trajectories.files, *filter(None, [config.trajectories.tools])):
        with open_for_reading(path) as file:
            header[f"content of {path} (sha256)"] = hashlib.file_digest(file, "sha256").hexdigest()
    return header
