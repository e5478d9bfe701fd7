"""The verifiers of a file of rows: the run's, and those that rows name, each built once and run where it may."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, Self, TypeVar

from pivotrl.trajectories.faults import RowFault
from pivotrl.trajectories.inspection import characters
from pivotrl.verifiers.attempt import Attempt
from pivotrl.verifiers.base import Verdict, VerifierConfig
from pivotrl.verifiers.pool import VerdictPool
from pivotrl.verifiers.rows import ScoreRow

CHUNK_ROWS = 1000
"""Rows that are judged at a time."""
FIRST_ROWS = 20
"""Rows of the first chunk: soon seen, and enough to tell a verifier that never answers."""
CHUNK_CHARACTERS = 16_000_000
"""Characters that a chunk holds at most, but for its last row: memory stays flat for long rows too."""

Key = tuple[str, str | None]
Tag = TypeVar("Tag")


class Judges:
    """A context manager; leaving it ends the worker processes and closes the verifiers that can be."""

    def __init__(self, run: VerifierConfig, counted: Callable[[int], object] | None = None):
        """`counted` hears of verdicts as they come. Raises ValueError where the section names no verifier, or
        parameters that it does not know."""
        self._counted = counted
        self._pools: dict[Key, VerdictPool] = {}
        self._accepted: set[tuple[Key, str]] = set()
        self._pool(run)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for pool in self._pools.values():
            pool.close()

    def fault(self, row: ScoreRow) -> RowFault | None:
        """What is wrong where the row asks for a verifier or a parameter that there is not."""
        accepted = (_key(row.config), repr(row.params))
        if accepted in self._accepted:
            return None
        try:
            verifier = self._pool(row.config).verifier
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
        places: dict[Key, list[int]] = {}
        for place, row in enumerate(rows):
            places.setdefault(_key(row.config), []).append(place)
        found: dict[int, Verdict] = {}
        for mine in places.values():
            jobs = [(rows[place].attempt, rows[place].params or None) for place in mine]
            found.update(zip(mine, self._pool(rows[mine[0]].config).judge(jobs), strict=True))
        return [found[place] for place in range(len(rows))]

    def usage(self) -> dict[str, Any]:
        """What verifiers that count their cost (`usage()`) say, by the verifier's name."""
        counted = {name: getattr(pool.verifier, "usage", None) for (name, _), pool in self._pools.items()}
        said = {name: usage() for name, usage in counted.items() if usage is not None}
        return {name: usage for name, usage in said.items() if usage}

    def _pool(self, config: VerifierConfig) -> VerdictPool:
        key = _key(config)
        if key not in self._pools:
            self._pools[key] = VerdictPool(config, config.workers, config.seconds, self._counted)
        return self._pools[key]


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


def _key(config: VerifierConfig) -> Key:
    return config.name, config.preset
