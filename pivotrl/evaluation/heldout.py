"""The turns that training never sees: those of held-out trajectories, as far as the context takes them."""

from dataclasses import dataclass

from pivotrl.config import RunConfig
from pivotrl.pivots.score import Scorer
from pivotrl.pivots.usable import usable_prompt
from pivotrl.trajectories.faults import RowFault
from pivotrl.trajectories.ids import stable_hash
from pivotrl.trajectories.records import Rejected, Turn
from pivotrl.trajectories.template import ChatTemplate
from pivotrl.trajectories.turns import TurnReader


@dataclass(frozen=True, slots=True)
class Heldout:
    turns: list[Turn]
    """In file order."""
    prompts: list[list[int]]
    """Of each turn, as the policy sees it."""
    groups: list[str]
    """Of each turn: what succeeds and fails together, the trials of one task where the file tells, else the
    trajectory."""
    left_out: int
    """Turns that cannot be sampled or judged (too long, mostly)."""


def heldout_ids(config: RunConfig) -> set[str]:
    """Trajectories that are measured.

    Raises:
        ValueError: none is held out; the message says why.
    """
    reader = TurnReader(config.trajectories, config.seed)
    ids = {item.trajectory_id for item in reader if isinstance(item, Turn) and item.split == "heldout"}
    if not ids:
        share = config.trajectories.heldout_share
        raise ValueError(
            f"no held-out turn to measure: trajectories.heldout_share is {share:g}, and of {reader.trajectories} "
            "trajectories none is held out; raise it (which changes what training sees), add trajectories, or take "
            "turns out of evaluation.sampled and evaluation.greedy"
        )
    most = config.evaluation.trajectories
    return set(sorted(ids, key=lambda name: stable_hash("evaluate", name))[:most])


def read_heldout(config: RunConfig, scorer: Scorer, template: ChatTemplate) -> Heldout:
    """Raises ValueError where there is no held-out turn, or none that the context takes."""
    chosen = heldout_ids(config)
    turns: list[Turn] = []
    prompts: list[list[int]] = []
    groups: list[str] = []
    left_out, why = 0, ""
    reader = TurnReader(config.trajectories, config.seed)
    for trajectory in reader.read_trajectories():
        if isinstance(trajectory, Rejected):
            continue
        for item in reader.turns_of(trajectory):
            if not isinstance(item, Turn) or item.trajectory_id not in chosen:
                continue
            try:
                prompts.append(usable_prompt(config, item, scorer, template))
            except RowFault as fault:
                left_out, why = left_out + 1, why or f"turn {item.id}: {fault.found}; {fault.write}"
            else:
                turns.append(item)
                groups.append(trajectory.group or trajectory.id)
    if not turns:
        raise ValueError(f"none of the {left_out} held-out turns can be measured: {why}")
    return Heldout(turns, prompts, groups, left_out)
