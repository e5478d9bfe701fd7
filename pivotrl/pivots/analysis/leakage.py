"""Trajectories that were kept out for measuring, and are in the training split all the same, or nearly so."""

from collections import defaultdict
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

import numpy as np

from pivotrl.pivots.analysis.duplicates import SHOWN, text_of
from pivotrl.pivots.analysis.hash_sample import HashSample
from pivotrl.pivots.analysis.minhash import ALIKE, band_keys, signature, similarity
from pivotrl.pivots.analysis.walk import Seen

SAMPLED = 2000
MOST_WORDS = 2000
"""Of a trajectory, from its end; system messages, which all share, are left out."""


@dataclass
class _Heldout:
    id: str
    text: str
    signature: np.ndarray
    twin: str = ""
    """A training trajectory of equal messages."""
    near: tuple[float, str] = (0.0, "")


class Leakage:
    """First `choose` over all trajectories, then `compare`, then `report`. Held-out trajectories are all looked at up
    to `SAMPLED`, else a sample of them; they are compared with every training trajectory."""

    def __init__(self, sampled: int = SAMPLED) -> None:
        self._sample: HashSample[_Heldout] = HashSample(sampled, "leakage")
        self._train = 0
        self._bands: dict[bytes, list[_Heldout]] = defaultdict(list)

    def choose(self, seen: Seen) -> None:
        if seen.split != "train":
            self._sample.offer(seen.trajectory.id, lambda: _Heldout(seen.trajectory.id, *_sketch(seen)))

    def compare(self, seen: Seen) -> None:
        if seen.split != "train" or not len(self._sample):
            return
        if not self._bands:
            for one in self._sample:
                for key in band_keys(one.signature):
                    self._bands[key].append(one)
        self._train += 1
        key, theirs = _sketch(seen)
        candidates = {id(one): one for band in band_keys(theirs) for one in self._bands.get(band, ())}
        for one in candidates.values():
            if one.text == key:
                one.twin = one.twin or seen.trajectory.id
            else:
                one.near = max(one.near, (similarity(one.signature, theirs), seen.trajectory.id))

    def report(self) -> dict[str, Any]:
        """Counts and pairs as JSON values; nothing held out: empty."""
        heldout = list(self._sample)
        if not heldout:
            return {}
        twins = [one for one in heldout if one.twin]
        near = sorted((one for one in heldout if not one.twin and one.near[0] >= ALIKE), key=lambda one: -one.near[0])
        pairs = [{"id": one.id, "train": one.twin, "similarity": 1.0} for one in twins]
        pairs += [{"id": one.id, "train": one.near[1], "similarity": one.near[0]} for one in near]
        return {
            "heldout": self._sample.offered,
            "compared": len(heldout),
            "train": self._train,
            "equal": len(twins),
            "near": len(near),
            "near_from": ALIKE,
            "pairs": pairs[: 2 * SHOWN],
        }


def _sketch(seen: Seen) -> tuple[str, np.ndarray]:
    """A name of the messages that is equal where they are, and their signature."""
    spoken = [one for one in seen.trajectory.messages if one["role"] not in ("system", "developer")]
    text = "\n".join(map(text_of, spoken))
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest(), signature(text, MOST_WORDS)
