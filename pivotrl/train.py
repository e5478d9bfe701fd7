"""Train a policy on its pivots: python -m pivotrl.train --config CONFIG [section.key=value ...] (under torchrun)."""

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pivotrl.session import Session


def train(session: "Session") -> None:
    """Run the loop from the newest checkpoint, or from the start, to `training.steps`.

    Raises:
        ValueError: the run folder has no pivots, or a checkpoint cannot be read.
        RefitError: the engine's weights are not the policy's.
    """
    from pivotrl.objective.advantage import group_advantages
    from pivotrl.policy import checkpoint
    from pivotrl.rollout.refit import refit
    from pivotrl.rollout.step import judge, sample, to_batch
    from pivotrl.pivots.sampler import PivotSampler
    from pivotrl.telemetry.metrics import MetricsWriter, PhaseTimer

    config, policy, engine = session.config, session.policy, session.engine
    run = Path(config.output)
    sampler = PivotSampler.from_folder(run / "pivots", config.training.pivots_per_step, config.seed)
    start = checkpoint.resume(policy, run / "checkpoints") if config.checkpoint.resume else 0
    if start:
        refit(policy, engine)
    with MetricsWriter(run, config.telemetry, session.world.rank, start) as writer:
        for step in range(start, config.training.steps):
            timer = PhaseTimer()
            with timer.phase("rollout"):
                pivots = sampler.batch(step)
                groups = sample(session, pivots, step)
            with timer.phase("verify"):
                rewards = judge(session, pivots, groups)
                advantages = group_advantages(rewards)
            with timer.phase("train"):
                batch = to_batch(pivots, groups, advantages)
                metrics = policy.train_step(batch, step)
            with timer.phase("refit"):
                proof = refit(policy, engine)
            with timer.phase("save"):
                checkpoint.save_if_due(policy, run / "checkpoints", step + 1)
            writer.write(step)


def main() -> int:
    parser = argparse.ArgumentParser(prog="pivotrl.train", description=__doc__)
    parser.add_argument("--config", required=True, help="YAML file of the run")
    parser.add_argument("overrides", nargs="*", metavar="section.key=value", help="laid over the file")
    arguments = parser.parse_args()
    from pivotrl.config import load_config
    from pivotrl.session import open_session

    try:
        train(open_session(load_config(arguments.config, arguments.overrides)))
    except ValueError as error:
        print(f"pivotrl.train: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
