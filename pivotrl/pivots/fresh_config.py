"""Section `fresh` of a run: pivots that stay fresh while the policy moves away from the one that found them."""

from typing import Literal

from pydantic import Field

from pivotrl.schema import Section


class FreshConfig(Section):
    """With `enabled`, training's rewards update what is believed of each turn, stale pivots retire, and other turns are
    profiled anew with the current policy (`pivots/fresh.py`)."""

    enabled: bool = False
    """Off: the pivots of the selection, each once an epoch; exactly the paper."""
    weights: Literal["uniform", "variance"] = "variance"
    """How pivots are drawn: all alike, or by the expected variance of their reward."""
    memory: float = Field(0.95, gt=0, le=1)
    """Share of what a reward tells that is left one step later, for the policy moves; 1 forgets nothing."""
    retire_below: float = Field(0.3, ge=0, lt=1)
    """A pivot retires when the chance that its next group carries a signal is believed to be below this."""
    every: int = Field(10, ge=0)
    """Steps from one re-profiling to the next; 0 keeps no schedule."""
    below: float = Field(0.3, ge=0, le=1)
    """Re-profile as well when the share of groups with signal since the last re-profiling (at least three steps ago) is
    below this, or fewer pivots are left than a batch takes."""
    turns: int = Field(64, ge=1)
    """Turns that one re-profiling looks at, of those that are retired or were never profiled."""
    samples: int = Field(4, ge=2)
    """Samples of each of them, at most; most get two (the rule of `pivots.profiling` thrifty)."""
