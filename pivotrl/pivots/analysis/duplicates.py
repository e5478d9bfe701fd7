"""Turns that are there more than once: equal prompts, equal expert actions, and prompts that end nearly alike.

A sample of the turns, all of them up to `SAMPLED`, is compared with every turn in a second pass. So memory is that of
the sample, and the shares are unbiased estimates of those of the whole.
"""

from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from pivotrl.pivots.analysis.hash_sample import HashSample
from pivotrl.pivots.analysis.minhash import ALIKE, band_keys, signature, similarity
from pivotrl.pivots.analysis.walk import Seen
from pivotrl.trajectories.records import Message, Turn
from pivotrl.trajectories.store import dumps

SAMPLED = 4000
LAST_MESSAGES, LAST_WORDS = 3, 200
"""What of a prompt is compared for near-duplicates; system messages, which all share, are left out."""
SHOWN = 5


@dataclass
class _Mine:
    """A sampled turn and what it met."""

    id: str
    trajectory: str
    prompt: bytes
    action: str
    signature: np.ndarray
    equal_prompts: int = 0
    equal_actions: int = 0
    other_actions: int = 0
    """Turns of an equal prompt where the expert did something else."""
    near: tuple[float, str] = field(default=(0.0, ""))
    """Similarity and id of the turn of another trajectory that comes closest without being equal."""


class Duplicates:
    """First `choose` over all trajectories, then `compare`, then `report`."""

    def __init__(self, sampled: int = SAMPLED) -> None:
        self._sample: HashSample[_Mine] = HashSample(sampled, "duplicates")
        self._prompts: dict[bytes, list[_Mine]] = defaultdict(list)
        self._actions: dict[str, list[_Mine]] = defaultdict(list)
        self._bands: dict[bytes, list[_Mine]] = defaultdict(list)

    def choose(self, seen: Seen) -> None:
        for turn, profile in seen.turns:
            if profile is not None:
                self._sample.offer(turn.id, lambda turn=turn: self._mine(seen, turn))

    def compare(self, seen: Seen) -> None:
        if not self._prompts:
            self._index()
        for turn, profile in seen.turns:
            if profile is not None:
                self._meet(turn, seen.prompt_keys[len(turn.messages)])

    def report(self) -> dict[str, Any]:
        """Shares as JSON values, with pairs to look at; of no turn, empty."""
        mine = list(self._sample)
        if not mine:
            return {}
        near = [one for one in mine if one.near[0] >= ALIKE]
        conflicts = [one for one in mine if one.other_actions]

        def share(count: int) -> float:
            return count / len(mine)

        return {
            "turns": self._sample.offered,
            "compared": len(mine),
            "equal_prompts": share(sum(one.equal_prompts > 0 for one in mine)),
            "equal_prompts_other_action": share(len(conflicts)),
            "equal_actions": share(sum(one.equal_actions > 0 for one in mine)),
            "near_prompts": share(len(near)),
            "near_from": ALIKE,
            "near_pairs": [
                {"id": one.id, "other": one.near[1], "similarity": one.near[0]}
                for one in sorted(near, key=lambda one: (-one.near[0], one.id))[:SHOWN]
            ],
            "conflicts": [{"id": one.id, "turns": one.other_actions} for one in conflicts[:SHOWN]],
        }

    def _mine(self, seen: Seen, turn: Turn) -> _Mine:
        prompt = seen.prompt_keys[len(turn.messages)]
        return _Mine(
            turn.id, turn.trajectory_id, prompt, dumps(turn.expert), signature(end_of(turn.messages), LAST_WORDS)
        )

    def _index(self) -> None:
        for one in self._sample:
            self._prompts[one.prompt].append(one)
            self._actions[one.action].append(one)
            for key in band_keys(one.signature):
                self._bands[key].append(one)

    def _meet(self, turn: Turn, prompt: bytes) -> None:
        action = dumps(turn.expert)
        for one in self._prompts.get(prompt, ()):
            if one.id != turn.id:
                one.equal_prompts += 1
                one.other_actions += one.action != action
        for one in self._actions.get(action, ()):
            one.equal_actions += one.id != turn.id
        theirs = signature(end_of(turn.messages), LAST_WORDS)
        candidates = {id(one): one for key in band_keys(theirs) for one in self._bands.get(key, ())}
        for one in candidates.values():
            if one.prompt != prompt and one.trajectory != turn.trajectory_id:
                one.near = max(one.near, (similarity(one.signature, theirs), turn.id))


def end_of(messages: list[Message]) -> str:
    """The text of the last messages, as near-duplicates are told by."""
    return "\n".join(
        map(text_of, [one for one in messages if one["role"] not in ("system", "developer")][-LAST_MESSAGES:])
    )


def text_of(message: Message) -> str:
    """Role, content and calls of one message."""
    calls = (f"{call['function']['name']} {call['function']['arguments']}" for call in message.get("tool_calls", ()))
    return "\n".join([message["role"], message["content"] or "", *calls])
