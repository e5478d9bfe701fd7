"""One rank of a command whose rank 1 is killed in the middle of a step, under torchrun: only the other one can tell."""

import os
import signal
import sys

import torch.distributed as dist

from pivotrl.command import run_command


def work() -> None:
    from pivotrl.cluster.preemption import Preemption
    from pivotrl.policy.config import ParallelConfig
    from pivotrl.policy.parallel import initialize
    from pivotrl.telemetry.metrics import PhaseTimer

    world = initialize(ParallelConfig(), seed=0)
    with Preemption():  # as in a training: it outlives the SIGTERM that torchrun sends to the ranks that are left
        dist.barrier()
        if world.rank == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        with PhaseTimer(4).phase("refit"):
            dist.all_gather_object([None, None], world.rank, group=world.object_group)


if __name__ == "__main__":
    sys.exit(run_command("pivotrl.train", [__file__], 2, work))
