"""What tools/score.py prints: verdicts by reason, and an audit's probes with the rows that break them."""

from collections import Counter
from typing import Any

from pivotrl.trajectories.faults import excerpt
from pivotrl.verifiers.audit import PROBES, Probe
from pivotrl.verifiers.base import Verdict
from pivotrl.verifiers.pool import FAULTS
from pivotrl.verifiers.rows import BadRow, RowId

BREAKS_SHOWN = 20
WIDTH = 35
"""Characters of the reasons' column: the longest key, `string_similarity_below_threshold`, and two blanks."""


class Rejects:
    """The bad rows of a file, counted by reason."""

    def __init__(self) -> None:
        self.reasons: Counter[str] = Counter()
        self.first = ""
        """The first one in words."""

    def add(self, row: BadRow) -> None:
        self.first = self.first or str(row.rejected)
        self.reasons[row.rejected.reason] += 1

    def line(self, file: object) -> str:
        """One line for the end of a table; `file` is where they were written."""
        counts = ", ".join(f"{reason} {count:,}" for reason, count in self.reasons.most_common())
        return f"rejected {self.reasons.total():,} rows ({counts}): " + (f"see {file}" if file else self.first)


class ReasonTable:
    """Counts and rewards by reason."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()
        self._rewards: Counter[str] = Counter()

    def add(self, verdict: Verdict) -> None:
        self._counts[verdict.reason] += 1
        self._rewards[verdict.reason] += verdict.reward

    @property
    def rows(self) -> int:
        return self._counts.total()

    def lines(self) -> list[str]:
        """The table; there is at least one row."""
        head = f"{'reason':{WIDTH}}{'rows':>9}{'share':>9}{'mean reward':>13}"
        body = [
            _line(reason[: WIDTH - 1], count, count / self.rows, self._rewards[reason] / count)
            for reason, count in self._counts.most_common()
        ]
        return [head, *body, _line("all", self.rows, 1.0, self._rewards.total() / self.rows)]


class FaultLines:
    """Verdicts that the verifier failed to give, counted by reason, each with the first one's words."""

    def __init__(self) -> None:
        self.rows = 0
        self.counts: Counter[str] = Counter()
        self._first: dict[str, str] = {}

    def add(self, verdict: Verdict) -> None:
        self.rows += 1
        if verdict.reason in FAULTS:
            self.counts[verdict.reason] += 1
            self._first.setdefault(verdict.reason, verdict.detail)

    @property
    def all_failed(self) -> bool:
        """Whether there are rows, and no verdict on any of them."""
        return self.rows == self.counts.total() > 0

    def lines(self, unit: str) -> list[str]:
        """A line for each kind of failure."""
        return [
            f"{reason}: {count:,} of {self.rows:,} {unit}; the first: {self._first[reason] or 'no detail'}"
            for reason, count in self.counts.most_common()
        ]


class ProbeTable:
    """Counts, rewards and breaks by probe."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()
        self._rewards: Counter[str] = Counter()
        self._allowed: Counter[str] = Counter()
        self.breaks: Counter[str] = Counter()
        self._shown: dict[str, list[str]] = {}

    def add(self, probe: Probe, row: RowId, verdict: Verdict) -> None:
        self._counts[probe.name] += 1
        self._rewards[probe.name] += verdict.reward
        self._allowed[probe.name] += probe.allowed
        if not probe.holds(verdict):
            self.breaks[probe.name] += 1
            shown = self._shown.setdefault(probe.name, [])
            if len(shown) < BREAKS_SHOWN:
                detail = f": {excerpt(verdict.detail, 80)[1:-1]}" if verdict.detail else ""
                shown.append(f"  {row}  {probe.name}  {verdict.reward:.3f}  {verdict.reason}{detail}")

    @property
    def probes(self) -> int:
        return self._counts.total()

    def lines(self) -> list[str]:
        """The table, and up to BREAKS_SHOWN breaks, of every probe some."""
        head = f"{'probe':14}{'probes':>9}{'mean reward':>13}{'allowed':>9}{'breaks':>8}   what it is"
        body = [self._line(name, meaning) for name, meaning in PROBES.items()]
        if not self.breaks:
            return [head, *body, "all hold"]
        shown = [self._shown[name] for name in PROBES if name in self._shown]
        turns = [lines[place] for place in range(BREAKS_SHOWN) for lines in shown if place < len(lines)]
        total = self.breaks.total()
        some = f"{BREAKS_SHOWN} of them" if total > BREAKS_SHOWN else "all of them"
        title = f"{total:,} of {self.probes:,} probes break; {some}, by row, probe, reward and reason:"
        return [head, *body, "", title, *turns[:BREAKS_SHOWN]]

    def _line(self, name: str, meaning: str) -> str:
        count = self._counts[name]
        mean, allowed = (f"{sums[name] / count:.3f}" if count else "-" for sums in (self._rewards, self._allowed))
        return f"{name:14}{count:>9,}{mean:>13}{allowed:>9}{self.breaks[name]:>8,}   {meaning}"


def usage_lines(usage: dict[str, Any]) -> list[str]:
    """What verifiers that ask somebody cost, a line each."""
    return [
        f"{name}: "
        + (", ".join(f"{key} {value}" for key, value in said.items()) if isinstance(said, dict) else f"{said}")
        for name, said in usage.items()
    ]


def _line(name: str, count: int, share: float, mean: float) -> str:
    return f"{name:{WIDTH}}{count:>9,}{share:>8.1%} {mean:>13.3f}"
