"""How long the prompts are, and what a limit of the context leaves out."""

import math
from collections.abc import Callable
from typing import Any

from pivotrl.pivots.analysis.folder import Selection
from pivotrl.pivots.analysis.hash_sample import HashSample
from pivotrl.pivots.analysis.walk import Seen
from pivotrl.trajectories.records import Turn
from pivotrl.trajectories.store import dumps
from pivotrl.trajectories.template import ChatTemplate

SAMPLED = 2000
BINS = 24
QUANTILES = (0.5, 0.9, 0.99, 1.0)


class Lengths:
    """Prompt lengths of a sample of the training split's turns, all up to `SAMPLED`: also of those too long to be
    profiled. In tokens where the policy's tokenizer is at hand, else in characters of JSON."""

    def __init__(self, selection: Selection, sampled: int = SAMPLED) -> None:
        self._selection = selection
        self._sample: HashSample[int | None] = HashSample(sampled, "lengths")
        self._length, self._why = _ruler(selection)

    def add(self, seen: Seen) -> None:
        if seen.split == "train":
            for turn, _ in seen.turns:
                self._sample.offer(turn.id, lambda turn=turn: self._length(turn))

    def report(self) -> dict[str, Any]:
        """Histogram, quantiles and the share that each context limit leaves out, as JSON values; of no turn, empty."""
        found = sorted(length for length in self._sample if length is not None)
        if not found:
            return {}
        in_tokens, room = not self._why, self._selection.room
        width = max(1, math.ceil((found[-1] + 1) / BINS))
        counts = [0] * (found[-1] // width + 1)
        for length in found:
            counts[length // width] += 1
        limits = sorted({room, *(2**power for power in range(8, 21))}) if in_tokens else []
        return {
            "turns": self._sample.offered,
            "measured": len(found),
            "unit": "tokens" if in_tokens else "characters",
            "why_not_tokens": self._why,
            "width": width,
            "counts": counts,
            "quantiles": {f"{q:g}": found[min(math.ceil(q * len(found)), len(found)) - 1] for q in QUANTILES},
            "room": room,
            "dropped": self._selection.dropped(),
            "longer_than": {
                str(limit): sum(length > limit for length in found) / len(found)
                for limit in limits
                if limit <= room or limit < 2 * found[-1]
            },
        }


def _ruler(selection: Selection) -> tuple[Callable[[Turn], int | None], str]:
    """What measures a turn (None: the template refuses it), and why it does not count tokens."""
    try:
        template = ChatTemplate(selection.model)
        if template.hash != selection.template_hash:
            raise ValueError(f"the tokenizer or chat template at {selection.model} is not the selection's")
    except ValueError as error:
        return (lambda turn: len(dumps([turn.messages, turn.tools]))), str(error)

    def tokens(turn: Turn) -> int | None:
        try:
            return len(template.encode(turn.messages, turn.tools))
        except ValueError:
            return None

    return tokens, ""
