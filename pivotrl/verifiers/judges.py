"""The verifiers of a file of rows: the run's, and those that rows name, each built once and run where it may."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, Self, TypeVar

from pivotrl.trajectories.faults import RowFault
from pivotrl.trajectories.inspection import characters
from pivotrl.verifiers.attempt import Attempt
from pivotrl.verifiers.base import Verdict, VerifierConfig
from pivotrl.verifiers.pools import VerdictPools
from pivotrl.verifiers.rows import ScoreRow

CHUNK_ROWS = 1000
"""Rows that are judged at a time."""
FIRST_ROWS = 20
"""Rows of the first chunk: soon seen, and enough to tell a verifier that never answers."""
CHUNK_CHARACTERS = 16_000_000
"""Characters that a chunk holds at most, but for its last row: memory stays flat for long rows too."""

Tag = TypeVar("Tag")


class Judges:
    """A context manager; leaving it ends the worker processes and closes the verifiers that can be."""

    def __init__(self, run: VerifierConfig, counted: Callable[[int], object] | None = None):
        """`counted` hears of verdicts as they come. Raises ValueError where the section names no verifier, or
        parameters that it does not know."""
        self._pools = VerdictPools(run, counted)
        self._accepted: set[str] = set()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._pools.close()

    def fault(self, row: ScoreRow) -> RowFault | None:
        """What is wrong where the row asks for a verifier or a parameter that there is not."""
        accepted = repr((row.config.name, row.config.preset, row.params))
        if accepted in self._accepted:
            return None
        try:
            verifier = self._pools.verifier(row.config)
            if row.params:
                verifier.verify(replace(row.attempt, items=[], text=None), row.params)
        except ValueError as error:
            found, _, write = str(error).partition("; ")
            return RowFault("bad_params" if row.params else "bad_verifier", found, write)
        if len(self._accepted) == CHUNK_ROWS:
            self._accepted.clear()
        self._accepted.add(accepted)
        return None

    def judge(self, rows: Sequence[ScoreRow]) -> list[Verdict]:
        """One verdict a row, in order."""
        return self._pools.judge([(row.config, row.attempt, row.params or None) for row in rows])

    def usage(self) -> dict[str, Any]:
        """What verifiers that count their cost (`usage()`) say, by the verifier's name."""
        counted = {name: getattr(found, "usage", None) for (name, _), found in self._pools.verifiers().items()}
        said = {name: usage() for name, usage in counted.items() if usage is not None}
        return {name: usage for name, usage in said.items() if usage}


def judged(rows: Iterable[tuple[Tag, ScoreRow]], judges: Judges) -> Iterator[tuple[Tag, ScoreRow, Verdict]]:
    """The rows with their verdicts, in order, judged in chunks; `Tag` is whatever the caller wants back."""
    chunk: list[tuple[Tag, ScoreRow]] = []
    held, most = 0, FIRST_ROWS
    for tag, row in rows:
        chunk.append((tag, row))
        held += _characters(row.attempt)
        if len(chunk) == most or held > CHUNK_CHARACTERS:
            yield from _judge_chunk(chunk, judges)
            chunk, held, most = [], 0, CHUNK_ROWS
    yield from _judge_chunk(chunk, judges)


def _judge_chunk(chunk: list[tuple[Tag, ScoreRow]], judges: Judges) -> Iterator[tuple[Tag, ScoreRow, Verdict]]:
    verdicts = judges.judge([row for _, row in chunk])
    return ((tag, row, verdict) for (tag, row), verdict in zip(chunk, verdicts, strict=True))


def _characters(attempt: Attempt) -> int:
    strings = [value for item in attempt.items for value in item.values() if isinstance(value, str)]
    return sum(map(len, strings)) + len(attempt.text or "") + characters(attempt.messages)
