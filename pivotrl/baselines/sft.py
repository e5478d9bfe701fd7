"""Train a policy to write what the expert wrote: supervised fine-tuning on the trajectories that PivotRL learns from.

    python -m pivotrl.baselines.sft --ranks N --config CONFIG [section.key=value ...]          (one machine)
    torchrun ... -m pivotrl.baselines.sft --config CONFIG [section.key=value ...]              (several)

Reads the training split of `trajectories.files`: every assistant turn is a target, behind the prompt that the policy
would act on (`rows.py`). Started again, it continues from the newest checkpoint in `OUTPUT/checkpoints`.
"""

import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from pivotrl.command import training_command

if TYPE_CHECKING:
    from pivotrl.baselines.rows import Imitated, Row
    from pivotrl.policy.packing import Sample
    from pivotrl.session import Session


def train(session: "Session") -> None:
    """Run from the newest checkpoint, or from the start, to `training.steps` or the end of `sft.epochs` (collective).
    The engine has the trained weights afterwards.

    Raises:
        ValueError: the trajectories give too few rows, or a checkpoint cannot be read.
        HealthStop: a gate of `health` stopped the run, which is saved.
        RefitError: the engine's weights are not the policy's.
    """
    from functools import partial

    from pivotrl.baselines.batches import Batches
    from pivotrl.handover import to_engine, to_trainer
    from pivotrl.run_loop import RunLoop

    config, policy = session.config, session.policy
    data = imitated(session)
    if session.world.rank == 0:
        print(data_line(data), flush=True)
    trajectories = list(data.trajectories.values())
    batches = Batches(len(trajectories), config.sft.trajectories_per_step, config.seed)
    steps = config.sft.epochs * batches.per_epoch if config.sft.epochs else config.training.steps

    def rows_of(step: int) -> list["Row"]:
        return [row for number in batches(step) for row in trajectories[number]]

    with RunLoop(session, steps, lambda step: [row.content() for row in rows_of(step)]) as loop:
        for step, timer in loop.steps():
            with timer.phase("train"):
                to_trainer(policy, session.engine)
                samples = [row.sample() for row in rows_of(step)]
                learned = policy.imitate(samples, step)
            loop.finish(step, timer, learned | {"cross_entropy": learned["loss"]}, partial(describe, samples))
    to_engine(policy, session.engine)


def imitated(session: "Session") -> "Imitated":
    """All rows of the training split, on every rank; each rank tokenises its share (collective).

    Raises:
        ValueError: a file cannot be used, or fewer trajectories have a target than a step takes.
    """
    from pivotrl.baselines.rows import Imitated, read
    from pivotrl.policy.agree import together

    world, config = session.world, session.config
    parts = together(world.object_group, lambda: read(config, session.template, world.rank, world.world_size))
    data = Imitated.merge(parts)
    if len(data.trajectories) < config.sft.trajectories_per_step:
        reasons = ", ".join(f"{count} {reason}" for reason, count in data.left_out.items()) or "none"
        raise ValueError(
            f"sft.trajectories_per_step is {config.sft.trajectories_per_step}, but {len(data.trajectories)} "
            f"trajectories of the training split have a turn to imitate (turns left out: {reasons}); lower it, or give "
            "more trajectories"
        )
    return data


def data_line(data: "Imitated") -> str:
    """What is trained on, for the terminal."""
    rows = sum(len(rows) for rows in data.trajectories.values())
    line = f"imitating {data.turns} turns of {len(data.trajectories)} trajectories in {rows} rows"
    reasons = ", ".join(f"{reason} {count}" for reason, count in sorted(data.left_out.items()))
    return f"{line}; turns left out: {reasons}" if reasons else line


def describe(samples: Sequence["Sample"], seconds: Mapping[str, float]) -> dict[str, float]:
    """Metrics of a step's rows. No turn was rolled out."""
    targets = sum(len(sample.targets) for sample in samples)
    return {
        "samples": len(samples),
        "rollout_turns": 0,
        "response_tokens": targets,
        "tokens_per_second": sum(len(sample) for sample in samples) / seconds["total"],
    }


def main() -> int:
    return training_command("pivotrl.baselines.sft", __doc__, train)


if __name__ == "__main__":
    sys.exit(main())
