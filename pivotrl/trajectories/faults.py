"""What a reader raises inside a bad row; `turns` and the readers' driver turn it into a `Rejected` record."""

from dataclasses import dataclass
from typing import Self

from pivotrl.trajectories.records import Rejected


@dataclass(frozen=True)
class Place:
    """Where a row stands: the file's name, and `line 7` (1-based) or `item 3` (0-based)."""

    file: str
    row: str

    def __str__(self) -> str:
        return f"{self.file} {self.row}"

    @classmethod
    def parse(cls, text: str) -> Self:
        """The inverse of `str`."""
        file, kind, number = text.rsplit(" ", 2)
        return cls(file, f"{kind} {number}")


class RowFault(ValueError):
    """One fault of one row: a key to count by, what was found, and what to write instead."""

    def __init__(self, reason: str, found: str, write: str, inside: str = ""):
        """`inside` tells where in the row, as in `message 5`."""
        super().__init__(f"{reason}: {found}; {write}")
        self.reason, self.found, self.write, self.inside = reason, found, write, inside

    def at(self, place: Place, turn_id: str = "") -> Rejected:
        """The record of this fault."""
        row = f"{place.row} {self.inside}".rstrip()
        return Rejected(file=place.file, row=row, reason=self.reason, found=self.found, write=self.write, id=turn_id)


def excerpt(value: object, limit: int = 60) -> str:
    """A short printable ASCII picture of anything a file may hold."""
    text = ascii(value)
    return text if len(text) <= limit else text[: limit - 3] + "..."
