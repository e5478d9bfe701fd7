"""Train a policy by whole episodes in a live world: multi-turn GRPO, what PivotRL does without.

    python -m pivotrl.baselines.end_to_end --ranks N --config CONFIG [section.key=value ...]          (one machine)
    torchrun ... -m pivotrl.baselines.end_to_end --config CONFIG [section.key=value ...]              (several)

A step plays `training.group_size` episodes of each of `training.pivots_per_step` tasks in the world of section
`environment`. An episode's reward becomes its advantage among the episodes of its task, and every turn of it is trained
with that advantage, behind its own prompt. Started again, it continues from the newest checkpoint in
`OUTPUT/checkpoints`; a step that was not finished is played again.
"""

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from pivotrl.command import training_command

if TYPE_CHECKING:
    from pivotrl.config import RunConfig
    from pivotrl.environment import Environment
    from pivotrl.episodes import Episode, EpisodeTurn
    from pivotrl.policy.packing import Sample
    from pivotrl.session import Session


def train(session: "Session") -> None:
    """Run from the newest checkpoint, or from the start, to `training.steps` (collective).

    Raises:
        ValueError: the environment cannot be used, or a checkpoint cannot be read.
        HealthStop: a gate of `health` stopped the run, which is saved.
        RefitError: after a step, the engine's weights were not the policy's.
    """
    from functools import partial

    from pivotrl import collect, handover
    from pivotrl.run_loop import RunLoop

    config, policy, engine = session.config, session.policy, session.engine
    tasks, worlds = tasks_of(config), build_worlds(config)
    with RunLoop(session, config.training.steps, tasks) as loop:
        if loop.start:
            handover.to_engine(policy, engine)
        for step, timer in loop.steps():
            with timer.phase("rollout"):
                episodes = sample(session, worlds, tasks(step), step)
            batch = make_batch(config, episodes)
            with timer.phase("train"):
                handover.to_trainer(policy, engine)
                learned = policy.train_step(batch, step)
            with timer.phase("refit"):
                proof = handover.to_engine(policy, engine)
            known = collect.summarise(learned) | proof.metrics()
            loop.finish(step, timer, known, partial(describe, episodes, config.training.group_size))


def check(config: "RunConfig") -> None:
    """Stop where a run asks for what this one does not do. Raises ValueError."""
    if config.training.dynamic_sampling:
        raise ValueError(
            f"training.dynamic_sampling is {config.training.dynamic_sampling}, which draws further pivots, and there "
            "are none in a run of pivotrl.baselines.end_to_end: set it 0"
        )
    size, tasks = config.training.pivots_per_step, config.environment.tasks
    if tasks is not None and tasks < size:
        raise ValueError(
            f"environment.tasks is {tasks}, and training.pivots_per_step, the tasks of a step, {size}: lower the "
            "second, or raise the first"
        )


def tasks_of(config: "RunConfig") -> Callable[[int], list[int]]:
    """Step -> the numbers of its tasks: shuffled passes over `environment.tasks` of them, or always new ones."""
    from pivotrl.baselines.batches import Batches

    check(config)
    size = config.training.pivots_per_step
    if config.environment.tasks is not None:
        return Batches(config.environment.tasks, size, config.seed)
    return lambda step: list(range(step * size, (step + 1) * size))


def build_worlds(config: "RunConfig") -> list["Environment"]:
    """An environment for each episode of a step, used again in every step. Raises ValueError."""
    from pivotrl.environment import build_environment

    count = config.training.pivots_per_step * config.training.group_size
    return [build_environment(config.environment.name, config.environment.stream) for _ in range(count)]


def sample(session: "Session", worlds: Sequence["Environment"], tasks: Sequence[int], step: int) -> list["Episode"]:
    """`training.group_size` episodes of each task, task after task, on every rank (collective).

    The seed of each turn follows from the run's seed, the step, and the numbers of task, episode and turn, so a resumed
    run draws the same.
    """
    from pivotrl.episodes import Play, play
    from pivotrl.trajectories.ids import stable_hash

    config = session.config
    size = config.training.group_size
    played = [task for task in tasks for _ in range(size)]

    def seed_of(dialog: int, turn: int) -> int:
        return stable_hash("episode", config.seed, step, played[dialog], dialog % size, turn) % 2**31

    return play(
        session.engine, session.parser, session.template, worlds, played, seed_of, Play.of(config), session.world
    )


def make_batch(config: "RunConfig", episodes: Sequence["Episode"]) -> list["Sample"]:
    """Every turn of every episode, behind its own prompt, with the episode's advantage within its group.

    Raises ValueError where no episode has a turn.
    """
    import torch

    from pivotrl.objective.advantage import group_advantages

    objective, size = config.objective, config.training.group_size
    rewards_N = torch.tensor([episode.reward for episode in episodes], dtype=torch.float64)
    group_N = [index // size for index in range(len(episodes))]
    advantages = group_advantages(rewards_N, group_N, objective.advantage, objective.advantage_epsilon).tolist()
    lay = chained if may_chain(config) else apart
    batch = [
        row for episode, advantage in zip(episodes, advantages, strict=True) for row in lay(episode.turns, advantage)
    ]
    if not batch:
        raise ValueError(
            "the first prompt of every episode, with rollout.max_new_tokens behind it, is longer than "
            "rollout.max_model_len or environment.max_episode_tokens: raise those, or lower the first"
        )
    return batch


def may_chain(config: "RunConfig") -> bool:
    """Whether the loss does not ask where one turn ends and the next begins: its terms and its mean are of tokens."""
    objective = config.objective
    by_token = objective.ratio == "token" and objective.aggregation == "token_mean"
    return by_token and config.training.router_replay != "engine"


def apart(turns: Sequence["EpisodeTurn"], advantage: float) -> Iterator["Sample"]:
    """Each turn as a sample of its own."""
    from pivotrl.policy import packing

    for turn in turns:
        item = turn.sample
        yield packing.Sample(turn.prompt_ids, item.token_ids, item.logprobs, advantage, item.routes)


def chained(turns: Sequence["EpisodeTurn"], advantage: float) -> Iterator["Sample"]:
    """Turns whose prompt goes on with the very ids before it as one row, of which the sampled tokens are the targets:
    the same loss and gradient as `apart`, and each token goes through the model once."""
    from dataclasses import replace

    from pivotrl.baselines.rows import Row

    rows: list[tuple[Row, list[float]]] = []
    for turn in turns:
        if not rows or not rows[-1][0].takes(turn.prompt_ids):
            rows.append((Row(), []))
        row, log_probs = rows[-1]
        row.add(turn.prompt_ids, turn.sample.token_ids)
        log_probs += turn.sample.logprobs
    for row, log_probs in rows:
        yield replace(row.sample(), sampler_log_probs=log_probs, advantage=advantage)


def describe(episodes: Sequence["Episode"], size: int, seconds: Mapping[str, float]) -> dict[str, float]:
    """Metrics of a step's episodes, under the names that a PivotRL run has for its samples, and those of episodes.

    Args:
        size: episodes of a group.
        seconds: wall seconds of the step's phases; `rollout` and `total` are read.
    """
    turns = [turn for episode in episodes for turn in episode.turns]
    rewards = [episode.reward for episode in episodes]
    groups = [rewards[start : start + size] for start in range(0, len(rewards), size)]
    tokens = sum(len(turn.sample.token_ids) for turn in turns)
    prompt_tokens = sum(len(turn.prompt_ids) for turn in turns)
    return {
        "reward": sum(rewards) / len(rewards),
        "signal_share": sum(min(group) < max(group) for group in groups) / len(groups),
        "samples": len(turns),
        "rollout_turns": len(turns),
        "episodes": len(episodes),
        "turns_per_episode": len(turns) / len(episodes),
        "out_of_turns_share": sum(episode.ended == "turns" for episode in episodes) / len(episodes),
        "out_of_context_share": sum(episode.ended == "context" for episode in episodes) / len(episodes),
        "response_tokens": tokens,
        "response_length": tokens / len(turns),
        "cut_off_share": sum(turn.sample.finish == "length" for turn in turns) / len(turns),
        "tokens_per_second": (prompt_tokens + tokens) / seconds["total"],
        "sampled_per_second": tokens / seconds["rollout"],
    }


def main() -> int:
    return training_command(
        "pivotrl.baselines.end_to_end", __doc__, train, lambda config: (tasks_of(config), build_worlds(config))
    )


if __name__ == "__main__":
    sys.exit(main())
