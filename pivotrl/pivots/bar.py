"""The progress bar of a selection: turns done, time left, and the share of turns that are mixed so far."""

from types import TracebackType
from typing import Any, Self

from tqdm import tqdm

from pivotrl.pivots.select import outcome
from pivotrl.trajectories.records import Profile


class SelectionBar:
    """One line on stderr."""

    def __init__(self, total: int, initial: int, show: bool):
        self._bar = tqdm(total=total, initial=min(initial, total), unit="turn", desc="profiling", disable=not show)
        self._turns = self._mixed = self._tokens = 0

    def add(self, results: list[dict[str, Any]], turns: int) -> None:
        """Count finished chunks that took `turns` turns in all."""
        for result in results:
            self._turns += len(result["profiles"])
            self._mixed += sum(outcome(Profile.from_json(row)) == "mixed" for row in result["profiles"])
            self._tokens += result["sampled_tokens"]
        share = f"{self._mixed / self._turns:.0%}" if self._turns else "-"
        self._bar.set_postfix_str(f"mixed {share}, {self._tokens} tokens", refresh=False)
        self._bar.update(turns)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.close()
