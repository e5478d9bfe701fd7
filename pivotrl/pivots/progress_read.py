"""A selection's finished log, read in the turns' order: eight bytes of memory a turn."""

from array import array
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from pivotrl.trajectories.store import open_for_reading, parse_json

if TYPE_CHECKING:
    from pivotrl.pivots.progress import ProgressLog

_PLACE, _REJECTED = b'{"turn":', b',"rejected":'
_OFFSET_BITS = 48
"""Of an entry, below the number of the file."""
_ABSENT = 2**64 - 1


class Attempt(NamedTuple):
    """What one engine did in one attempt."""

    number: int
    ranks: int
    """Of all engines together."""
    seconds: float
    """From the attempt's beginning to the engine's last turn."""


class Results:
    """The lines of a log that has one for each turn."""

    def __init__(self, log: "ProgressLog", files: Sequence[Path], turns: int):
        """Index the files once. Raises ValueError where a turn has no line."""
        self._log, self._files = log, files
        self._entries = array("Q", [_ABSENT]) * turns
        self._rejected = array("Q")
        self.attempts: list[Attempt] = []
        for number, path in enumerate(files):
            self._index(number, path)
        if _ABSENT in self._entries:
            raise log.fault("", f"turn {self._entries.index(_ABSENT)} is missing")
        self._rejected = array("Q", sorted(self._rejected))

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """Every turn's line."""
        return self._read(self._entries)

    def profiles(self) -> Iterator[dict[str, Any]]:
        """The profiles of the turns that have one."""
        return (row["profile"] for row in self if "profile" in row)

    def rejected(self) -> Iterator[dict[str, Any]]:
        """Why the other turns have none."""
        return (row["rejected"] for row in self._read(self._entries[place] for place in self._rejected))

    def where(self, place: int) -> str:
        """The file in which a turn's line is, for an error."""
        return self._files[self._entries[place] >> _OFFSET_BITS].name

    def _index(self, number: int, path: Path) -> None:
        offset, begun, last = 0, {}, b""
        with open_for_reading(path) as file:
            for line in file:
                if line.startswith(_PLACE):
                    end = line.index(b",")
                    place = int(line[len(_PLACE) : end])
                    self._entries[place] = number << _OFFSET_BITS | offset
                    if line.startswith(_REJECTED, end):
                        self._rejected.append(place)
                    last = line
                else:
                    self._end(begun, last)
                    begun, last = parse_json(line.decode("ascii")), b""
                offset += len(line)
        self._end(begun, last)

    def _end(self, begun: dict[str, Any], last: bytes) -> None:
        if begun and last:
            self.attempts.append(Attempt(begun["attempt"], begun["ranks"], parse_json(last.decode("ascii"))["clock"]))

    def _read(self, entries: Iterator[int] | array) -> Iterator[dict[str, Any]]:
        with ExitStack() as stack:
            files = [stack.enter_context(open_for_reading(path)) for path in self._files]
            for entry in entries:
                file = files[entry >> _OFFSET_BITS]
                file.seek(entry & ((1 << _OFFSET_BITS) - 1))
                yield parse_json(file.readline().decode("ascii"))
