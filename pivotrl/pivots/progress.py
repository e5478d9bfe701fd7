"""The durable log of a selection: what it was started with, and one line for each profiled turn.

`OUT/progress/header.json` has the settings that decide the profiles. `OUT/progress/engine_00003.jsonl` is what engine 3
wrote, in any number of attempts: a line that begins an attempt, `{"attempt", "ranks", "selection"}`, then one for each
turn as it was done (`progress_line.py`), with the seconds since the attempt began. The place of a turn among the
candidates orders the files that are made of the log at the end; `selection` is the header's hash, so that no line of
another selection is ever taken.

A line is on disk before it counts as done. The log's bytes differ from run to run; the files made from it do not.
"""

import hashlib
from pathlib import Path
from typing import Any

from pivotrl.config import RunConfig
from pivotrl.pivots.model_digest import model_digest
from pivotrl.pivots.progress_line import fault_of
from pivotrl.pivots.progress_read import Results
from pivotrl.pivots.progress_write import EngineLog
from pivotrl.trajectories.store import (
    drop_incomplete_line,
    dumps,
    open_for_reading,
    parse_json,
    scan_jsonl,
    write_json,
)

FOLDER, HEADER = "progress", "header.json"
OLD_FORM = "progress.jsonl"
DECIDES = {
    "model": ("path", "dtype"),
    "trajectories": ("files", "format", "min_reward", "tools", "heldout_share", "row_verifiers"),
    "verifier": ("name", "preset", "params"),
    "pivots": ("samples", "profiling", "temperature", "top_p", "limit", "chunk"),
    "rollout": ("tensor", "max_model_len", "max_new_tokens", "max_num_seqs", "tool_parser", "reasoning_parser"),
}
"""Keys that change what a profile holds. `pivots.keep` is not among them, nor is `pivots.max_mean` where profiling is
fixed: they only choose from finished profiles."""
FEWEST = 2
"""Samples that a sequential profile has at least."""


class ProgressLog:
    """`progress/` in the output folder."""

    def __init__(self, folder: Path):
        self.out, self.folder = folder, folder / FOLDER

    def check(self, header: dict[str, Any]) -> bool:
        """Whether there is a log; raises ValueError where it was not started with `header`, naming the first key that
        differs. Reads the header only."""
        if (self.out / OLD_FORM).exists():
            raise ValueError(
                f"{self.out / OLD_FORM}: the log of a selection by an earlier release, which this one cannot continue: "
                "delete it and start the selection anew, or give another --out"
            )
        if not (self.folder / HEADER).exists():
            if self.files():
                raise self.fault(HEADER, "it is missing")
            return False
        found = self._header()
        for key in header:
            if found.get(key) != header[key]:
                raise ValueError(
                    f"{self.out}: this selection was started with {key}={found.get(key)!r}, and now it is "
                    f"{header[key]!r}; set it back to continue, or give another --out"
                )
        return True

    def open(self, header: dict[str, Any], turns: int) -> tuple[bytes, int]:
        """Start the log, or check that it was started with the same `header` and that every line is whole, and drop
        what a kill left of the last ones.

        Args:
            header: settings.
            turns: how many turns the selection has.

        Returns:
            For each turn 1 where it is done, else 0; and the number of this attempt, from 0.

        Raises:
            ValueError: it names the key, or the line, and the remedy.
        """
        if not self.check(header):
            self.folder.mkdir(parents=True, exist_ok=True)
            write_json(self.folder / HEADER, header)
        most = header["pivots.samples"]
        fewest = most if header["pivots.profiling"] == "fixed" else FEWEST
        done, attempts, selection = bytearray(turns), 0, self._hash()
        for path in self.files():
            drop_incomplete_line(path)
            for line, row, fault in scan_jsonl(path):
                if isinstance(row, dict) and row.get("selection") == selection:
                    attempts = max(attempts, row["attempt"] + 1)
                    continue
                if line == 1:
                    fault = "the lines of another selection"
                elif not isinstance(row, dict):
                    fault = fault or f"found a {type(row).__name__} in place of an object"
                else:
                    fault = fault_of(row, turns, fewest, most)
                if not fault and done[row["turn"]]:
                    fault = f"turn {row['turn']} a second time"
                if fault:
                    raise self.fault(f"{path.name}:{line}", fault)
                done[row["turn"]] = 1
        return bytes(done), attempts

    def writer(self, engine: int, attempt: int, ranks: int) -> "EngineLog":
        """What one engine appends to, in this attempt of `ranks` ranks."""
        return EngineLog(self._path(engine), {"attempt": attempt, "ranks": ranks, "selection": self._hash()})

    def results(self, turns: int) -> "Results":
        """The lines of a finished log, in the turns' order. Raises ValueError where a turn has none."""
        return Results(self, self.files(), turns)

    def fault(self, where: str, found: str) -> ValueError:
        """The error for what no run of this program left behind."""
        return ValueError(
            f"{self.folder}/{where}: {found}; the log was damaged or edited: delete the folder {FOLDER} and start the "
            "selection anew, or give another --out"
        )

    def discard(self) -> None:
        """Remove the log, so that the next selection in this folder starts anew."""
        for path in [*self.files(), self.folder / HEADER]:
            path.unlink()

    def _path(self, engine: int) -> Path:
        return self.folder / f"engine_{engine:05d}.jsonl"

    def files(self) -> list[Path]:
        """What the engines wrote, in the engines' order."""
        return sorted(self.folder.glob("engine_*.jsonl"))

    def _header(self) -> dict[str, Any]:
        with open_for_reading(self.folder / HEADER) as file:
            try:
                found = parse_json(file.read().decode("utf-8"))
            except ValueError as error:
                raise self.fault(HEADER, f"{error}") from None
        if not isinstance(found, dict) or "seed" not in found:
            raise self.fault(HEADER, "not what a selection begins with")
        return found

    def _hash(self) -> str:
        return hashlib.sha256(dumps(self._header()).encode("ascii")).hexdigest()[:32]


def header_of(config: RunConfig, template_hash: str | None = None) -> dict[str, Any]:
    """What a selection's profiles depend on: settings, the template (left out where it is not known yet), and the
    content of the files and of the model."""
    header = {"seed": config.seed}
    if template_hash is not None:
        header["model.chat_template (hash)"] = template_hash
    for section, keys in DECIDES.items():
        header |= {f"{section}.{key}": getattr(getattr(config, section), key) for key in keys}
    if config.pivots.profiling != "fixed":  # when a turn is settled depends on it
        header["pivots.max_mean"] = config.pivots.max_mean
    header["weights in model.path (sha256)"] = model_digest(config.model.path)
    for path in (*config.trajectories.files, *filter(None, [config.trajectories.tools])):
        with open_for_reading(path) as file:
            header[f"content of {path} (sha256)"] = hashlib.file_digest(file, "sha256").hexdigest()
    return header
