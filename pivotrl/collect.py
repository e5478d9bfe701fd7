"""One step's experience: sample a group at each pivot, judge every action, make the trainer's batch of it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from pivotrl.objective.advantage import group_advantages
from pivotrl.pivots.reasons import ReasonTally
from pivotrl.policy import packing
from pivotrl.rollout import bank
from pivotrl.rollout.records import Request, Sample
from pivotrl.session import Session
from pivotrl.trajectories.ids import stable_hash
from pivotrl.trajectories.records import Pivot


@dataclass(frozen=True, slots=True)
class Group:
    """The samples of one draw of one pivot. Two draws with equal prompts are two groups."""

    pivot: Pivot
    samples: list[Sample]
    rewards: list[float]
    reasons: list[str]

    @property
    def has_signal(self) -> bool:
        return min(self.rewards) < max(self.rewards)


def sample(session: Session, pivots: Sequence[Pivot], step: int) -> list[list[Sample]]:
    """`training.group_size` actions at each pivot from the engine's weights, on every rank (collective).

    Each request's seed follows from the run's seed, the step and the pivot's id, so a resumed run draws the same; with
    `rollout.bank` it takes what a killed one had finished.
    """
    config = session.config
    requests = [
        Request(
            prompt_ids=pivot.prompt_ids,
            n=config.training.group_size,
            seed=stable_hash("train", config.seed, step, pivot.id) % 2**31,
            temperature=config.rollout.temperature,
            top_p=config.rollout.top_p,
            max_tokens=config.rollout.max_new_tokens,
            routes=config.training.router_replay == "engine",
        )
        for pivot in pivots
    ]
    if not config.rollout.bank:
        return session.engine.generate_all(requests)
    return bank.generate(session.engine, requests, Path(config.output) / bank.BANK_FOLDER, step)


def judge(session: Session, pivots: Sequence[Pivot], samples: Sequence[list[Sample]]) -> list[Group]:
    """Verdicts of every sample on every rank; each rank judges its share of the groups (collective)."""
    rank, world_size = session.world.rank, session.world.world_size
    turns = [pivot.turn for pivot in pivots]
    mine = session.scorer.verdicts(turns[rank::world_size], samples[rank::world_size])
    shares: list[Any] = [mine]
    if world_size > 1:
        shares = [None] * world_size
        dist.all_gather_object(shares, mine, group=session.world.object_group)
    groups = []
    for index, (pivot, group) in enumerate(zip(pivots, samples, strict=True)):
        verdicts = shares[index % world_size][index // world_size]
        groups.append(Group(pivot, group, [v.reward for v in verdicts], [v.reason for v in verdicts]))
    return groups


def make_batch(session: Session, groups: Sequence[Group]) -> list[packing.Sample]:
    """Every sample with its prompt and its advantage within its group, group by group."""
    objective = session.config.objective
    rewards_N = torch.tensor([reward for group in groups for reward in group.rewards], dtype=torch.float64)
    group_N = [index for index, group in enumerate(groups) for _ in group.samples]
    advantages = iter(group_advantages(rewards_N, group_N, objective.advantage, objective.advantage_epsilon).tolist())
    return [
        packing.Sample(group.pivot.prompt_ids, item.token_ids, item.logprobs, next(advantages), item.routes)
        for group in groups
        for item in group.samples
    ]


def describe(groups: Sequence[Group], seconds: Mapping[str, float]) -> dict[str, float]:
    """Metrics of a step's experience: mean reward, share of groups with signal, lengths, tokens per second, and for
    each reason of a verdict its share (`reason.<key>`) and the mean reward of these verdicts (`reward.<key>`).

    Args:
        groups: the step's groups.
        seconds: wall seconds of its phases; `rollout` and `total` are read.
    """
    samples = [item for group in groups for item in group.samples]
    rewards = [reward for group in groups for reward in group.rewards]
    tokens = sum(len(item.token_ids) for item in samples)
    prompt_tokens = sum(len(group.pivot.prompt_ids) * len(group.samples) for group in groups)
    tally = ReasonTally()
    for group in groups:
        tally.add(group.rewards, group.reasons)
    reasons = tally.report()
    return {
        "reward": sum(rewards) / len(rewards),
        "signal_share": sum(group.has_signal for group in groups) / len(groups),
        "samples": len(samples),
        "response_tokens": tokens,
        "response_length": tokens / len(samples),
        "cut_off_share": sum(item.finish == "length" for item in samples) / len(samples),
        "tokens_per_second": (prompt_tokens + tokens) / seconds["total"],
        "sampled_per_second": tokens / seconds["rollout"],
        **{f"reason.{name}": reason.share for name, reason in reasons.items()},
        **{f"reward.{name}": reason.mean_reward for name, reason in reasons.items()},
    }


def summarise(learned: Mapping[str, float]) -> dict[str, float]:
    """The update's metrics, with the three that a run is watched by under short names: clip_share, kl and gap."""
    short = {"kl_reference": "kl", "sampler_gap": "gap"}
    result = {short.get(name, name): value for name, value in learned.items()}
    clipped = [value for name, value in learned.items() if name in ("clip_low_share", "clip_high_share")]
    return result | ({"clip_share": sum(clipped)} if clipped else {})


def examples(session: Session, groups: Sequence[Group], count: int = 6) -> list[dict[str, Any]]:
    """Turns to read in the report: the prompt's end, the expert's action, one failing and one succeeding sample."""
    rows = []
    for group in [group for group in groups if group.has_signal][:count]:
        ranked = sorted(range(len(group.samples)), key=lambda index: group.rewards[index])
        rows.append(
            {
                "id": group.pivot.id,
                "prompt": session.template.decode(group.pivot.prompt_ids[-160:]),
                "expert": group.pivot.turn.expert,
                "failing": session.template.decode(group.samples[ranked[0]].token_ids),
                "failing_reason": group.reasons[ranked[0]],
                "succeeding": session.template.decode(group.samples[ranked[-1]].token_ids),
            }
        )
    return rows
