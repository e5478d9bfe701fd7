"""One rank of test_finite.py: updates that are no finite numbers change nothing, and a stop saves what was before them.

Usage (under torchrun): finite_ranks.py MODEL_FOLDER RUN_FOLDER CASE
"""

import json
import math
import sys
from dataclasses import replace
from pathlib import Path

import torch
import torch.distributed as dist

from pivotrl.policy import parallel
from pivotrl.policy.checkpoint import Checkpoints
from pivotrl.policy.checkpoint_state import norms
from pivotrl.policy.memory import gradient_buffers
from pivotrl.policy.step import Policy
from tests.policy.checkpoint_ranks import batch, make, weights


def poison_one_gradient(policy: Policy) -> None:
    """After the next backward pass, one number of rank 1's gradients is infinite; the loss knows nothing of it."""
    original = policy.gradients

    def gradients(*arguments):
        metrics = original(*arguments)
        if dist.get_rank() == 1:
            gradient_buffers(policy.ddp)[0].grad_data[3] = math.inf
        policy.gradients = original
        return metrics

    policy.gradients = gradients


def main() -> None:
    model, run, case = sys.argv[1], Path(sys.argv[2]), json.loads(sys.argv[3])
    straight = make(model, run, case)
    expected = [straight.train_step(batch(0), 0), straight.train_step(batch(1), 1)]
    end = weights(straight)

    parallel.destroy()
    policy = make(model, run, case)
    good = policy.train_step(batch(0), 0)
    assert good == expected[0] and good["updates_left_out"] == 0
    before, moments = weights(policy), norms(policy)
    nan = policy.train_step([replace(batch(1)[0], advantage=math.nan), *batch(1)[1:]], 1)
    assert math.isnan(nan["loss"]) and math.isnan(nan["grad_norm"]) and nan["updates_left_out"] == 1, nan
    poison_one_gradient(policy)
    inf = policy.train_step(batch(1), 1)
    assert math.isfinite(inf["loss"]) and math.isnan(inf["grad_norm"]) and inf["updates_left_out"] == 1, inf
    after = weights(policy)
    assert all(torch.equal(before[name], after[name]) for name in before), "the weights are as they were"
    assert norms(policy) == moments, "and so is Adam"

    with Checkpoints(policy, run) as checkpoints:
        checkpoints.save(1)
        checkpoints.finish()
        written = (run / "step_000001" / "run.json").stat().st_mtime_ns
        checkpoints.save_now(1)
        assert (run / "step_000001" / "run.json").stat().st_mtime_ns == written, "saved once"
        checkpoints.save_now(2)
        assert (run / "latest").read_text() == "step_000002", "save_now waits until it counts"
    assert policy.train_step(batch(1), 1) == expected[1], "the next good update is as if nothing had been"
    found = weights(policy)
    assert all(torch.equal(found[name], end[name]) for name in end)
    if dist.get_rank() == 0:
        print("WEIGHTS KEPT", flush=True)


if __name__ == "__main__":
    main()
