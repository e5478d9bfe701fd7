"""One line of a selection's log: a turn with its profile, or with the reason why it has none, and what it cost."""

from typing import Any

from pivotrl.pivots.select import make_profile
from pivotrl.trajectories.records import Profile, Rejected


def line_of(place: int, result: Profile | Rejected, prompt_tokens: int = 0, sampled_tokens: int = 0) -> dict[str, Any]:
    """A finished turn's line, before the log adds its clock.

    Args:
        place: of the turn among all candidates, from 0. It is the first key: the log finds its lines by it.
        result: its profile, or why it cannot be sampled.
        prompt_tokens: of its prompt, counted once however many samples and rounds there were.
        sampled_tokens: of all its samples.
    """
    kind = "profile" if isinstance(result, Profile) else "rejected"
    return {
        "turn": place,
        kind: result.to_json(),
        "prompt_tokens": prompt_tokens,
        "sampled_tokens": sampled_tokens,
    }


def fault_of(row: dict[str, Any], turns: int, fewest: int, most: int) -> str:
    """What is wrong with a turn's line; empty where it is whole.

    Args:
        row: the line.
        turns: how many turns the selection has.
        fewest, most: samples that a profile may have.
    """
    place = row.get("turn")
    if type(place) is not int or not 0 <= place < turns:
        return f"expected one of {turns} turns, found turn {place!r}"
    try:
        counted = all(row[key] >= 0 for key in ("prompt_tokens", "sampled_tokens", "clock"))
        if "rejected" in row:
            Rejected.from_json(row["rejected"])
            return "" if counted else f"turn {place} has a negative count"
        profile = Profile.from_json(row["profile"])
        usual = make_profile(profile.id, profile.rewards, profile.reasons, profile.policy, profile.sampling) == profile
        usual &= all(isinstance(reason, str) for reason in profile.reasons)
    except (KeyError, TypeError, ValueError, ZeroDivisionError):
        return f"turn {place} lacks a part or holds one of another type"
    if not counted or not usual or len(profile.reasons) != len(profile.rewards):
        return f"turn {place} holds a profile that its rewards do not give"
    if not fewest <= len(profile.rewards) <= most:
        return f"turn {place} holds {len(profile.rewards)} rewards in place of {_count(fewest, most)}"
    return ""


def _count(fewest: int, most: int) -> str:
    return f"{most}" if fewest == most else f"{fewest} to {most}"
