"""Ranks of test_preemption.py: the last one gets a signal after its second step; all of them stop there."""

import os
import signal

import torch.distributed as dist

from pivotrl.cluster.preemption import Preemption

dist.init_process_group("gloo")
rank, step, reason = dist.get_rank(), 0, ""
with Preemption(dist.group.WORLD) as preemption:
    while not reason and step < 10:
        step += 1
        if step == 2 and rank == dist.get_world_size() - 1:
            os.kill(os.getpid(), signal.SIGUSR1)
        reason = preemption.asked()
# In one write: the ranks share this output, and Python run with -u writes a line's end by itself.
print(f"rank{rank}:{reason.replace(' ', '')}:{step}\n", end="", flush=True)
# No destructors: in so short a process gloo's threads may not be done, and abort it (one run in seven).
dist.barrier()
os._exit(0)
