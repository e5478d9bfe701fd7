"""Which turns teach: the paper's rule on a profile (arXiv 2603.21383, eq. 5), and the counts that a summary reports."""

from collections import Counter
from typing import Any, Literal

from pivotrl.trajectories.actions import action_kind
from pivotrl.trajectories.records import Profile, Turn

Keep = Literal["pivots", "mixed", "all"]


def make_profile(
    turn_id: str, rewards: list[float], reasons: list[str], policy: str, sampling: dict[str, Any]
) -> Profile:
    """Mean and population variance of K rewards; the variance of equal rewards is exactly 0."""
    mean = sum(rewards) / len(rewards)
    variance = sum((reward - mean) ** 2 for reward in rewards) / len(rewards) if min(rewards) < max(rewards) else 0.0
    return Profile(turn_id, rewards, reasons, mean, variance, policy, sampling)


def outcome(profile: Profile) -> str:
    """`mixed`, `all_pass`, `all_fail`, or `all_partial` (one equal reward between 0 and 1, in graded reward modes)."""
    if profile.variance > 0:
        return "mixed"
    return {1.0: "all_pass", 0.0: "all_fail"}.get(profile.rewards[0], "all_partial")


def is_pivot(profile: Profile, max_mean: float) -> bool:
    """variance > 0 and mean < lambda: the frozen policy sometimes fails and sometimes succeeds, and fails often
    enough."""
    return profile.variance > 0 and profile.mean < max_mean


def is_kept(profile: Profile, max_mean: float, keep: Keep) -> bool:
    """Whether the turn goes into pivots.jsonl, by `pivots.keep`: the pivots, every mixed turn, or all."""
    return {"pivots": is_pivot(profile, max_mean), "mixed": profile.variance > 0, "all": True}[keep]


class Tally:
    """Counts over profiled turns, in all, by tool and by depth; `pivots` counts what `keep` keeps."""

    def __init__(self, max_mean: float, keep: Keep = "pivots"):
        self._max_mean, self._keep = max_mean, keep
        self._all: Counter[str] = Counter()
        self._by_tool: dict[str, Counter[str]] = {}
        self._by_depth: dict[int, Counter[str]] = {}

    def add(self, turn: Turn, profile: Profile) -> None:
        kind = action_kind(turn.expert)
        counts = (
            self._all,
            self._by_tool.setdefault(kind, Counter()),
            self._by_depth.setdefault(turn.turn_index, Counter()),
        )
        for count in counts:
            count["candidates"] += 1
            count[outcome(profile)] += 1
            count["pivots"] += is_kept(profile, self._max_mean, self._keep)
            count["reward"] += profile.mean

    def report(self) -> dict[str, Any]:
        """The counts as JSON values; tools by falling number of candidates, depths from the first turn on."""
        tools = sorted(self._by_tool.items(), key=lambda item: (-item[1]["candidates"], item[0]))
        return {
            **_counts(self._all),
            "per_tool": {name: _counts(count) for name, count in tools},
            "per_depth": {str(depth): _counts(self._by_depth[depth]) for depth in sorted(self._by_depth)},
        }


def _counts(count: Counter[str]) -> dict[str, Any]:
    keys = ["candidates", "mixed", "all_pass", "all_fail", *(["all_partial"] if count["all_partial"] else []), "pivots"]
    total = count["candidates"]
    return {key: count[key] for key in keys} | {"mean_reward": round(count["reward"] / total, 6) if total else None}
