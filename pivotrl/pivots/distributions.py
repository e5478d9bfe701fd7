"""Pass rates that a simulation of profiling runs over, as turns with K recorded rewards each.

Only exchangeability is assumed: given how many of a turn's K samples passed, every order is equally likely. So the
share of samples, and which of the fixed-K pivots are found, need no guess at the pass rates behind the counts.
"""

import random
from pathlib import Path

from pivotrl.trajectories.store import read_jsonl

PUBLISHED = {0: 0.44, 1: 0.10, **dict.fromkeys(range(2, 10), 0.05), **dict.fromkeys(range(10, 17), 0.06 / 7)}
"""Passes of 16 samples -> share of turns: 44 % at 0, 10 % at 1, 5-7 % each at 2 to 9, the rest above (NVIDIA's
tau-bench file, whose rows end at 9 of 16; issue 7). At 5 % each the shares leave 6 %, spread evenly here."""
NO_SIGNAL = 0.71
"""Share of random turns whose group has no signal (arXiv 2603.21383)."""


def with_passes(shares: dict[int, float], no_signal: float) -> dict[int, float]:
    """The distribution with turns that always pass added until `no_signal` of all are all-fail or all-pass."""
    top = max(shares)
    mixed = 1 - shares[0] - shares[top]
    weight = (1 - no_signal) / mixed
    result = {count: weight * share for count, share in shares.items()}
    return result | {top: result[top] + 1 - weight}


NAMED = {"published": PUBLISHED, "random_turns": with_passes(PUBLISHED, NO_SIGNAL)}


def turns_of(name: str, number: int, seed: int) -> list[list[float]]:
    """Rewards of each turn: `number` turns of a named distribution, or the recorded ones of a `profile.jsonl`.

    Raises:
        ValueError: no such name or file, or the file's turns have not all as many rewards (at least 4).
    """
    if name in NAMED:
        noise, shares = random.Random(seed), NAMED[name]
        counts = noise.choices(list(shares), list(shares.values()), k=number)
        top = max(shares)
        turns = [[1.0] * count + [0.0] * (top - count) for count in counts]
        for rewards in turns:
            noise.shuffle(rewards)
        return turns
    if not Path(name).is_file():
        raise ValueError(f"{name}: no such distribution or file; write one of {', '.join(NAMED)}, or a profile.jsonl")
    turns = []
    for line, row in read_jsonl(name):
        rewards = row.get("rewards")
        if not isinstance(rewards, list) or not all(isinstance(reward, int | float) for reward in rewards):
            raise ValueError(f"{name}:{line}: no list `rewards` of numbers; give the profile.jsonl of a selection")
        if len(rewards) < 4 or len(rewards) != len(turns[0] if turns else rewards):
            raise ValueError(
                f"{name}:{line}: {len(rewards)} rewards; a replay needs as many at every turn, at least 4: select with "
                "pivots.profiling=fixed"
            )
        turns.append([float(reward) for reward in rewards])
    if not turns:
        raise ValueError(f"{name}: no profiles in it; give the profile.jsonl of a finished selection")
    return turns
