"""How pivots are found: how often the frozen policy tries each turn, and which turns are kept."""

from typing import Literal

from pydantic import Field

from pivotrl.schema import Section


class PivotsConfig(Section):
    """Section `pivots` of a run."""

    samples: int = Field(16, ge=2)
    """K: completions sampled at each turn to profile it; the most that a turn gets where `profiling` is sequential."""
    profiling: Literal["fixed", "thorough", "thrifty"] = "fixed"
    """How many samples a turn gets: `fixed` draws K at once, as the paper does; the others draw in rounds and stop at
    a turn that is settled (`pivots/sequential.py`): `thorough` loses almost no pivot, `thrifty` gets the most signal
    for each sample where turns are in abundance."""
    temperature: float = Field(1.0, gt=0)
    """Of the profiling samples; use training's, so that the profile tells what training will see."""
    top_p: float = Field(1.0, gt=0, le=1)
    """Nucleus of the profiling samples."""
    max_mean: float = Field(0.6, gt=0, le=1)
    """lambda: a pivot's mean reward is below this. NVIDIA's tau-bench run used 0.6; 1 keeps every mixed turn."""
    keep: Literal["pivots", "mixed", "all"] = "pivots"
    """Which profiled turns go into pivots.jsonl: the pivots; every mixed turn, whatever its mean; or all turns, the
    ablation `random turns`. The profiles are the same."""
    limit: int | None = Field(None, ge=1)
    """Profile at most this many turns, drawn evenly by a hash of their ids; null profiles all."""
    chunk: int = Field(64, ge=1)
    """Turns that an engine takes at a time: whole trajectories of at least this many turns, sampled together. What a
    kill makes it sample again; more keep a large engine full, fewer leave less to wait for at the end."""
    max_bad_share: float = Field(0.01, ge=0, le=1)
    """Stop when more than this share of the rows is bad: then the file is probably not what was meant."""
