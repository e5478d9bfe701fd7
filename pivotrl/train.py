"""Train a policy on its pivots.

    python -m pivotrl.train --ranks N --config CONFIG [section.key=value ...]          (one machine)
    torchrun ... -m pivotrl.train --config CONFIG [section.key=value ...]              (several)

Reads `OUTPUT/pivots/pivots.jsonl`, which tools/select_pivots.py wrote; started again, it continues from the newest
checkpoint in `OUTPUT/checkpoints`. Asked to stop (`cluster/preemption.py`), it finishes its step, saves, and exits 0.
"""

import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from pivotrl.command import training_command

if TYPE_CHECKING:
    from pivotrl.config import RunConfig
    from pivotrl.pivots.sampler import PivotSampler
    from pivotrl.session import Session


def train(session: "Session") -> None:
    """Run the loop from the newest checkpoint, or from the start, to `training.steps` (collective).

    Raises:
        ValueError: the run folder has no pivots, or one that is too long, or a checkpoint cannot be read.
        RefitError: after a step, the engine's weights were not the policy's.
        HealthStop: a gate of `health` stopped the run, which is saved.
    """
    from pivotrl import collect, handover, refresh
    from pivotrl.pivots import verifier_change
    from pivotrl.pivots.store import check_lengths
    from pivotrl.policy.agree import on_first
    from pivotrl.policy.checkpoint import newest
    from pivotrl.policy.checkpoint_rotation import step_of
    from pivotrl.rollout import bank
    from pivotrl.run_loop import RunLoop
    from pivotrl.trajectories.store import write_json

    config, policy, engine, rank = session.config, session.policy, session.engine, session.world.rank
    run, limits = Path(config.output), (config.rollout.max_model_len, config.rollout.max_new_tokens)
    sampler = sampler_of(config)
    sampler.check_template(session.template.hash)
    on_first(session.world, lambda: check_lengths(run / "pivots" / "pivots.jsonl", *limits))
    sampler = refresh.sampler_of(session, sampler)
    with RunLoop(session, config.training.steps, sampler.batch, refresh.carried(sampler)) as loop:
        if loop.start:
            handover.to_engine(policy, engine)
        if rank == 0:
            for line in verifier_change.warnings(config, newest(run / "checkpoints")):
                print(line, flush=True)
        for step, timer in loop.steps():
            refresh.before_step(session, sampler, step, timer)
            groups = collect.experience(session, sampler, step, timer)
            freshness = refresh.after_step(sampler, step, groups)
            batch = collect.make_batch(session, collect.chosen(config.training, groups))
            with timer.phase("train"):
                handover.to_trainer(policy, engine)
                learned = policy.train_step(batch, step)
            with timer.phase("refit"):
                proof = handover.to_engine(policy, engine)
            if step == 0 and rank == 0:
                write_json(run / "examples.json", collect.examples(session, groups))
            known = freshness | collect.cost_of_draws(config.training, groups)
            known |= collect.summarise(learned) | proof.metrics()
            loop.finish(step, timer, known, partial(collect.describe, groups))
            if rank == 0 and (covered := newest(run / "checkpoints")):
                bank.forget_before(run / bank.BANK_FOLDER, step_of(covered))


def sampler_of(config: "RunConfig") -> "PivotSampler":
    """Batches from the pivots in the run's folder. Raises ValueError where there are none, or too few."""
    from pivotrl.pivots.report import why_no_pivots
    from pivotrl.pivots.sampler import PivotSampler
    from pivotrl.pivots.store import PivotFile

    folder = Path(config.output) / "pivots"
    pivots = PivotFile(folder / "pivots.jsonl")
    if not pivots:
        raise ValueError(why_no_pivots(folder))
    training = config.training
    return PivotSampler(pivots, training.pivots_per_step, config.seed, 1 + training.dynamic_sampling)


def main() -> int:
    return training_command("pivotrl.train", __doc__, train, sampler_of)


if __name__ == "__main__":
    sys.exit(main())
