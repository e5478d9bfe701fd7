"""A selection's `pivots.jsonl` as a sequence that keeps only offsets in memory."""

from array import array
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pivotrl.trajectories.records import Pivot
from pivotrl.trajectories.store import parse_json


class PivotFile(Sequence[Pivot]):
    """Reads pivots from disk when they are asked for: eight bytes of memory a pivot, whatever its history's length."""

    def __init__(self, path: str | Path):
        """Index the file once. Raises ValueError where it cannot be read."""
        self._path = Path(path)
        if not self._path.is_file():
            raise ValueError(f"{path}: no pivots there; run tools/select_pivots.py with this configuration first")
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
            return Pivot.from_json(parse_json(line.decode("ascii")))
        except (ValueError, TypeError, KeyError) as error:
            raise ValueError(f"{self._path}:{index + 1}: not a pivot ({error}); select the pivots anew") from None
