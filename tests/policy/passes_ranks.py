"""One rank of test_passes.py: the reference pass, the old-log-prob pass, what a batch without signal does, and which
tokens go through the head.

Usage (under torchrun): passes_ranks.py MODEL_FOLDER '{"parallel": ..., "model": {"dtype": ...}}'
"""

import json
import sys
from dataclasses import replace

import torch
import torch.distributed as dist

from pivotrl.config import parse_config
from pivotrl.policy import device
from pivotrl.policy.packing import Sample
from pivotrl.policy.parallel import initialize
from pivotrl.policy.step import Policy
from tests.policy.checkpoint_ranks import batch

device.prepare()

from pivotrl.policy import head  # noqa: E402


def main() -> None:
    case = json.loads(sys.argv[2])
    changes = {
        "output": "unused",
        "model": {"path": sys.argv[1], **case.pop("model", {})},
        "objective": {"beta": 0.05, "clip_low": 0.01, "clip_high": 0.01},
        "training": {"updates_per_batch": 2, "micro_batch_tokens": 16},
        "optimizer": {"lr": 3e-3},
        **case,
    }
    config = parse_config(changes, "test")
    world = initialize(config.parallel, 0)
    policy = Policy(config, world)
    samples = batch(0)

    start = policy.log_probs(samples)
    assert all(torch.equal(a, b) for a, b in zip(policy.reference_log_probs(samples), start, strict=True))
    learned = policy.train_step(samples, 0)
    moved = max((a - b).abs().max().item() for a, b in zip(policy.log_probs(samples), start, strict=True))
    assert moved > 1e-2, f"two updates moved the log-probs by {moved}"
    again = policy.reference_log_probs(samples)
    assert all(torch.equal(a, b) for a, b in zip(again, start, strict=True)), "the reference moved"
    now = max((a - b).abs().max().item() for a, b in zip(policy.log_probs(samples), start, strict=True))
    assert now == moved, "the reference pass left its weights in the policy"
    assert learned["kl_reference"] > 0, "the second update is away from the reference"
    assert abs(learned["ratio"] - 1) > 1e-4, "and from the policy that sampled"
    assert learned["clip_low_share"] + learned["clip_high_share"] > 0

    quiet = parse_config(changes | {"objective": {}, "training": {}}, "test")
    still = Policy(quiet, world)
    before = {name: tensor.clone() for name, tensor in still.export()}
    silent = still.train_step([replace(sample, advantage=0.0) for sample in samples], 0)
    assert silent["grad_norm"] == 0 and silent["loss"] == 0, silent
    same = all(torch.allclose(tensor, before[name], atol=1e-4) for name, tensor in still.export())
    assert same, "only weight decay may touch the weights without a signal"

    through_head = rows_through_head(policy, samples)
    responses = sum(len(sample.response_ids) for sample in samples)
    assert through_head == 2 * responses * world.tp_size, "twice every response token on each tensor rank"
    if world.rank == 0:
        print("PASSES HOLD", flush=True)


def rows_through_head(policy: Policy, samples: list[Sample]) -> int:
    """Rows that all ranks put through the head for the log-probs and for the gradient of a batch."""
    original, count = head.head_logprob, torch.zeros((), dtype=torch.int64)

    def counted(hidden_NH: torch.Tensor, *args, **kwargs):
        count.add_(len(hidden_NH))
        return original(hidden_NH, *args, **kwargs)

    head.head_logprob = counted
    try:
        reference = policy.log_probs(samples)
        policy.gradients(samples, denominator=1.0, reference=reference)
    finally:
        head.head_logprob = original
    dist.all_reduce(count)
    return int(count)


if __name__ == "__main__":
    main()
