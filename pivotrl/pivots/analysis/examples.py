"""A few turns of each class to read: those that always pass, that are mixed but easy, the pivots, the hopeless."""

from typing import Any

from pivotrl.pivots.analysis.duplicates import text_of
from pivotrl.pivots.analysis.hash_sample import HashSample
from pivotrl.pivots.analysis.walk import Seen
from pivotrl.pivots.select import is_pivot, outcome
from pivotrl.trajectories.records import Profile, Turn

CLASSES = {
    "pivot": "Pivots: mixed, with a mean below lambda",
    "mixed_easy": "Mixed, but too easy: a mean of lambda or more",
    "all_fail": "Every sample fails",
    "all_partial": "Every sample earns the same part",
    "all_pass": "Every sample passes",
}
"""Class of a profiled turn -> its title on the page."""
EACH = 3
LONGEST = 1500
"""Characters shown of a prompt's end."""


def class_of(profile: Profile, max_mean: float) -> str:
    found = outcome(profile)
    if found != "mixed":
        return found
    return "pivot" if is_pivot(profile, max_mean) else "mixed_easy"


class Examples:
    """The same turns in every run: those whose ids have the smallest hashes."""

    def __init__(self, max_mean: float) -> None:
        self._max_mean = max_mean
        self._samples: dict[str, HashSample[dict[str, Any]]] = {
            name: HashSample(EACH, f"examples {name}") for name in CLASSES
        }

    def add(self, seen: Seen) -> None:
        for turn, profile in seen.turns:
            if profile is not None:
                kind = class_of(profile, self._max_mean)
                self._samples[kind].offer(turn.id, lambda turn=turn, profile=profile: _example(turn, profile))

    def report(self) -> dict[str, Any]:
        """Class -> its number of turns, and some of them."""
        return {
            name: {"turns": sample.offered, "examples": list(sample)}
            for name, sample in self._samples.items()
            if sample.offered
        }


def _example(turn: Turn, profile: Profile) -> dict[str, Any]:
    verdicts = sorted(zip(profile.rewards, profile.reasons, strict=True), reverse=True)
    counted: dict[tuple[float, str], int] = {}
    for verdict in verdicts:
        counted[verdict] = counted.get(verdict, 0) + 1
    text = "\n\n".join(map(text_of, turn.messages[-4:]))
    return {
        "id": turn.id,
        "source": turn.source,
        "prompt_end": text if len(text) <= LONGEST else f"... {text[-LONGEST:]}",
        "expert": turn.expert,
        "mean": profile.mean,
        "samples": len(profile.rewards),
        "verdicts": [{"reward": reward, "reason": why, "samples": n} for (reward, why), n in counted.items()],
    }
