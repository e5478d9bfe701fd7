"""What was measured, on disk: each part of each policy in chunks that a kill cannot undo.

A part's file is named by a hash of everything that decides its figures: the weights' fingerprint, the settings, the
items. So a policy that was measured is never measured again, and another file, seed or verifier is another part.
"""

import hashlib
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

from pivotrl.policy.agree import on_first
from pivotrl.trajectories.store import append_jsonl, drop_incomplete_line, read_jsonl

Item = TypeVar("Item")
CHUNK = 256


class PartStore:
    """The parts in one folder; rank 0 reads and writes, and every rank gets what it read."""

    def __init__(self, folder: Path, world: Any) -> None:
        self._folder, self._world = folder, world

    def measured(
        self,
        part: str,
        decided_by: dict[str, Any],
        items: Sequence[Item],
        measure: Callable[[Sequence[Item]], list[dict[str, Any]]],
    ) -> list[dict[str, Any]]:
        """The results of all items, in order: those of finished chunks from disk, the others measured (collective).

        Args:
            part: begins the file's name.
            decided_by: JSON values that, with the items' own, decide the results.
            measure: gives one result for each item of a chunk; collective.

        Raises:
            ValueError: the part's file was damaged or edited, on every rank; or what `measure` raises.
        """
        header = {"part": part, "items": len(items), **decided_by}
        path = self._folder / f"{part}-{digest(header)}.jsonl"
        results = self._first(lambda: _read(path, header, len(items)))
        for start in range(len(results), len(items), CHUNK):
            found = measure(items[start : start + CHUNK])
            assert len(found) == len(items[start : start + CHUNK])
            self._first(lambda start=start, found=found: append_jsonl(path, [{"from": start, "results": found}]))
            results += found
        return results

    def _first(self, work: Callable[[], Any]) -> Any:
        return on_first(self._world, work) if self._world.world_size > 1 else work()


def digest(value: Any) -> str:
    """A name of JSON values: 16 hexadecimal digits."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:16]


def file_digest(path: str | Path) -> str:
    """A name of a file's content."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()[:16]


def _read(path: Path, header: dict[str, Any], items: int) -> list[dict[str, Any]]:
    """The results that are on disk; begins the file where there is none."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.exists():
        drop_incomplete_line(path)
    if not path.exists() or not path.stat().st_size:
        append_jsonl(path, [header])
    results: list[dict[str, Any]] = []
    for line, row in read_jsonl(path):
        if line == 1:
            fits = row == json.loads(json.dumps(header))
        else:
            size = min(CHUNK, items - len(results))
            fits = row.get("from") == len(results) and len(row.get("results", ())) == size > 0
        if not fits:
            raise ValueError(f"{path}:{line}: not what an evaluation writes; delete the file to measure this part anew")
        results += row.get("results", []) if line > 1 else []
    return results
