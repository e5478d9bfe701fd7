"""One rank of test_dist_read.py: save a training run's checkpoint on each layout, and stream the weights out of it.

usage (under torchrun): stream_ranks.py RUN_FOLDER '[[model folder, {"tensor": 2, ...}], ...]'
"""

import json
import sys
from pathlib import Path

import torch
import torch.distributed as dist

from pivotrl.policy import parallel
from pivotrl.policy.checkpoint import Checkpoints
from pivotrl.policy.dist_read import DistFiles
from tests.policy.checkpoint_ranks import make, train, weights


def main() -> None:
    for number, (model, layout) in enumerate(json.loads(sys.argv[2])):
        run = Path(sys.argv[1]) / str(number)
        policy = make(model, run, {"parallel": layout})
        train(policy, range(1))
        with Checkpoints(policy, run) as checkpoints:
            checkpoints.save(1)
        expected = weights(policy)
        if dist.get_rank() == 0:
            found = {tensor.name: values for tensor, values in DistFiles(run / "step_000001", policy.arch).tensors()}
            wrong = sorted(name for name in expected if not torch.equal(found.pop(name), expected[name]))
            print("RESULT " + json.dumps([wrong, sorted(found)]), flush=True)
        parallel.destroy()
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
