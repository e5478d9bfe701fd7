"""One step's experience: sample a group at each pivot, judge every action, make the trainer's batch of it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

import torch

from pivotrl.early_stop import Stopping, coin_of, decide
from pivotrl.judging import Judging
from pivotrl.objective.advantage import group_advantages
from pivotrl.pivots.reasons import ReasonTally
from pivotrl.pivots.sampler import PivotSampler
from pivotrl.policy import packing
from pivotrl.policy.config import TrainingConfig
from pivotrl.rollout import bank
from pivotrl.rollout.records import Request, Sample
from pivotrl.session import Session
from pivotrl.telemetry.metrics import PhaseTimer
from pivotrl.trajectories.ids import stable_hash
from pivotrl.trajectories.records import Pivot

if TYPE_CHECKING:
    from pivotrl.config import RunConfig


@dataclass(frozen=True, slots=True)
class Group:
    """The samples of one draw of one pivot. Two draws with equal prompts are two groups."""

    pivot: Pivot
    samples: list[Sample]
    rewards: list[float]
    reasons: list[str]
    stopping: Stopping | None = None
    """What `rollout.early_stop` decided."""

    @property
    def has_signal(self) -> bool:
        return min(self.rewards) < max(self.rewards)

    @property
    def weight(self) -> float:
        """Of its loss."""
        return 1.0 if self.stopping is None else self.stopping.weight

    @property
    def unchosen(self) -> int:
        """The first so many samples were drawn whatever their rewards: means over them are not biased by stopping."""
        return len(self.samples) if self.stopping is None else self.stopping.after


def experience(session: Session, sampler: PivotSampler, step: int, timer: PhaseTimer) -> list[Group]:
    """All groups that a step samples, with their verdicts (collective): of one batch of pivots or, with
    `training.dynamic_sampling`, of as many as it takes."""
    groups: list[Group] = []
    for draw in range(sampler.rounds):
        pivots = sampler.batch(step, draw)
        groups += _groups(session, pivots, requests_of(session.config, pivots, step, draw), step, timer)
        if sum(group.has_signal for group in groups) >= session.config.training.pivots_per_step:
            break
    return groups


def _groups(
    session: Session, pivots: Sequence[Pivot], requests: Sequence[Request], step: int, timer: PhaseTimer
) -> list[Group]:
    """A group for each request (collective); with `rollout.early_stop` in two waves, of which the second has only the
    groups that go on. All ranks decide by the same verdicts."""
    early = session.config.rollout.early_stop
    if early.after is None:
        return _wave(session, pivots, requests, step, timer)
    first = _wave(session, pivots, [replace(request, n=early.after) for request in requests], step, timer)
    decided = [
        replace(group, stopping=decide(group.rewards, request.n, early.keep, coin_of(request.seed)))
        for group, request in zip(first, requests, strict=True)
    ]
    going = [index for index, group in enumerate(decided) if not group.stopping.stopped]
    if going:
        rest = [replace(requests[index], n=requests[index].n - early.after, first=early.after) for index in going]
        second = _wave(session, [pivots[index] for index in going], rest, step, timer)
        for index, more in zip(going, second, strict=True):
            group = decided[index]
            decided[index] = replace(
                group,
                samples=group.samples + more.samples,
                rewards=group.rewards + more.rewards,
                reasons=group.reasons + more.reasons,
            )
    return decided


def _wave(
    session: Session, pivots: Sequence[Pivot], requests: Sequence[Request], step: int, timer: PhaseTimer
) -> list[Group]:
    with timer.phase("rollout"), Judging(session, [pivot.turn for pivot in pivots]) as judging:
        samples = sample(session, requests, step, judging)
    with timer.phase("verify"):
        return judge(judging, pivots, samples)


def requests_of(config: "RunConfig", pivots: Sequence[Pivot], step: int, draw: int) -> list[Request]:
    """`training.group_size` actions at each pivot. Each request's seed follows from the run's seed, the step, the
    pivot's id and the draw, so a resumed run draws the same."""
    again = [draw] if draw else []  # a pivot may come twice in a step
    return [
        Request(
            prompt_ids=pivot.prompt_ids,
            n=config.training.group_size,
            seed=stable_hash("train", config.seed, step, pivot.id, *again) % 2**31,
            temperature=config.rollout.temperature,
            top_p=config.rollout.top_p,
            max_tokens=config.rollout.max_new_tokens,
            routes=config.training.router_replay == "engine",
        )
        for pivot in pivots
    ]


def sample(session: Session, requests: Sequence[Request], step: int, judging: Judging) -> list[list[Sample]]:
    """The samples of each request from the engine's weights, on every rank (collective).

    With `rollout.bank` a resumed run takes what a killed one had finished. `judging` hears of this rank's groups as
    they are done.
    """
    if not session.config.rollout.bank:
        return session.engine.generate_all(requests, judging.hear)
    folder = Path(session.config.output) / bank.BANK_FOLDER
    return bank.generate(session.engine, requests, folder, step, judging.hear)


def judge(judging: Judging, pivots: Sequence[Pivot], samples: Sequence[list[Sample]]) -> list[Group]:
    """The groups with the verdicts of every sample, on every rank (collective)."""
    return [
        Group(pivot, group, [verdict.reward for verdict in row], [verdict.reason for verdict in row])
        for pivot, group, row in zip(pivots, samples, judging.verdicts(samples), strict=True)
    ]


def chosen(training: TrainingConfig, groups: Sequence[Group]) -> list[Group]:
    """The groups that a step trains on: all; with `training.dynamic_sampling`, the first `pivots_per_step` that carry a
    signal and, where the draws ran out, the first of the others, which only count in the denominator. The order of
    draws knows nothing of rewards."""
    if not training.dynamic_sampling:
        return list(groups)
    return sorted(groups, key=lambda group: not group.has_signal)[: training.pivots_per_step]


def cost_of_draws(training: TrainingConfig, groups: Sequence[Group]) -> dict[str, float]:
    """With `training.dynamic_sampling`, how many batches a step drew, and the share of its groups that it did not train
    on."""
    if not training.dynamic_sampling:
        return {}
    used = training.pivots_per_step
    return {"draws": len(groups) / used, "unused_share": 1 - used / len(groups)}


def make_batch(session: Session, groups: Sequence[Group]) -> list[packing.Sample]:
    """Every sample with its prompt and its advantage within its group times the group's weight, group by group."""
    objective = session.config.objective
    rewards_N = torch.tensor([reward for group in groups for reward in group.rewards], dtype=torch.float64)
    group_N = [index for index, group in enumerate(groups) for _ in group.samples]
    advantages = iter(group_advantages(rewards_N, group_N, objective.advantage, objective.advantage_epsilon).tolist())
    return [
        packing.Sample(
            prompt_ids=group.pivot.prompt_ids,
            response_ids=item.token_ids,
            sampler_log_probs=item.logprobs,
            advantage=group.weight * next(advantages),
            routes=item.routes,
            stands_for=1.0 if group.stopping is None else group.stopping.stands_for,
        )
        for group in groups
        for item in group.samples
    ]


def mean_reward(groups: Sequence[Group]) -> float:
    """Over the samples that were drawn whatever their rewards: all without `rollout.early_stop`."""
    return fmean(reward for group in groups for reward in group.rewards[: group.unchosen])


def describe(groups: Sequence[Group], seconds: Mapping[str, float]) -> dict[str, float]:
    """Metrics of a step's experience: mean reward, share of groups with signal, lengths, tokens per second, and for
    each reason of a verdict its share (`reason.<key>`) and the mean reward of these verdicts (`reward.<key>`).

    With `rollout.early_stop` also the share of groups that stopped and of samples that were not drawn for it; rewards
    and reasons are then of each group's first `after` samples, and groups with signal count by their weight, so with
    `keep` above 0 the means of all are what they are without it.

    Args:
        groups: all that the step sampled.
        seconds: wall seconds of its phases; `rollout` and `total` are read.
    """
    samples = [item for group in groups for item in group.samples]
    unchosen = [item for group in groups for item in group.samples[: group.unchosen]]
    tokens = sum(len(item.token_ids) for item in samples)
    prompt_tokens = sum(len(group.pivot.prompt_ids) * len(group.samples) for group in groups)
    tally = ReasonTally()
    for group in groups:
        tally.add(group.rewards[: group.unchosen], group.reasons[: group.unchosen])
    reasons = tally.report()
    return {
        "reward": mean_reward(groups),
        "signal_share": sum(group.weight * group.has_signal for group in groups) / len(groups),
        "samples": len(samples),
        "rollout_turns": len(samples),
        "response_tokens": tokens,
        "response_length": tokens / len(samples),
        "cut_off_share": sum(item.finish == "length" for item in unchosen) / len(unchosen),
        "tokens_per_second": (prompt_tokens + tokens) / seconds["total"],
        "sampled_per_second": tokens / seconds["rollout"],
        **{f"reason.{name}": reason.share for name, reason in reasons.items()},
        **{f"reward.{name}": reason.mean_reward for name, reason in reasons.items()},
        **_stopped(groups),
    }


def _stopped(groups: Sequence[Group]) -> dict[str, float]:
    decided = [group.stopping for group in groups if group.stopping is not None]
    if not decided:
        return {}
    return {
        "early_stopped_share": sum(one.stopped for one in decided) / len(decided),
        "samples_saved_share": sum(one.saved for one in decided) / sum(one.size for one in decided),
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
