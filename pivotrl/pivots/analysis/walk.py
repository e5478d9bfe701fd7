"""One pass over the trajectories of a selection, every turn beside its profile."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b

from pivotrl.pivots.analysis.folder import Selection
from pivotrl.trajectories.ids import split_of
from pivotrl.trajectories.records import Profile, Rejected, Trajectory, Turn
from pivotrl.trajectories.store import dumps
from pivotrl.trajectories.turns import TurnReader


@dataclass
class Seen:
    """A trajectory with its turns."""

    trajectory: Trajectory
    split: str
    turns: list[tuple[Turn, Profile | None]]
    """None: a turn that was not profiled (held out, rejected, or left out by `pivots.limit`)."""

    @cached_property
    def prompt_keys(self) -> list[bytes]:
        """16 bytes for each number of messages from the start: equal where tools and messages are."""
        key = blake2b(dumps(self.trajectory.tools).encode(), digest_size=16).digest()
        keys = [key]
        for message in self.trajectory.messages:
            key = blake2b(key + dumps(message).encode(), digest_size=16).digest()
            keys.append(key)
        return keys


def walk(selection: Selection) -> Iterator[Seen]:
    """Every usable trajectory, in file order; one is held at a time.

    Raises:
        ValueError: a file cannot be read, or a profile belongs to none of the turns.
    """
    reader = TurnReader(selection.trajectories, selection.seed)
    profiles = selection.profiles()
    profile = next(profiles, None)
    for trajectory in reader.read_trajectories():
        if isinstance(trajectory, Rejected):
            continue
        split = split_of(trajectory.group or trajectory.id, selection.seed, selection.trajectories.heldout_share)
        turns: list[tuple[Turn, Profile | None]] = []
        for turn in reader.turns_of(trajectory):
            if isinstance(turn, Rejected):
                continue
            mine = profile is not None and profile.id == turn.id
            turns.append((turn, profile if mine else None))
            if mine:
                profile = next(profiles, None)
        yield Seen(trajectory, split, turns)
    if profile is not None:
        raise ValueError(
            f"{selection.folder / 'profile.jsonl'}: turn {profile.id!r} is not the trajectories' next one; the files "
            "are not those that the selection was made from: put them back, or select the pivots anew"
        )
