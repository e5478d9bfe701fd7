"""One rank of test_offload.py: the same steps with the optimizer put away between them, and without.

Usage (under torchrun): offload_ranks.py FOLDER '[{"parallel": {...}, "optimizer": {...}}, ...]'
"""

import json
import sys

import torch

from pivotrl.config import parse_config
from pivotrl.policy.memory import measured_bytes, optimizer_tensors
from pivotrl.policy.parallel import World, destroy, initialize
from pivotrl.policy.step import Policy
from tests.policy.checkpoint_ranks import batch


def steps(folder: str, case: dict, offload: bool) -> tuple[list[dict], list[torch.Tensor], dict]:
    """Metrics of three steps, everything held after them, and this rank's bytes while sampling and while awake."""
    tree = {"output": "unused", "model": {"path": folder, **case.get("model", {})}, "optimizer": {"lr": 1e-3}}
    tree["optimizer"] |= case.get("optimizer", {})
    tree |= {"parallel": case["parallel"], "training": {"offload": offload, "micro_batch_tokens": 16}}
    config = parse_config(tree, "test")
    world: World = initialize(config.parallel, 0)
    policy = Policy(config, world)
    metrics, held = [], {}
    for step in range(3):
        policy.sleep()
        assert policy.asleep == offload
        held["asleep"] = measured_bytes(policy)
        policy.log_probs(batch(step))
        for _ in policy.export():
            pass
        policy.wake()
        metrics.append(policy.train_step(batch(step), step))
        held["awake"] = measured_bytes(policy)
    weights = list(policy.model.parameters())
    state = [tensor.detach().clone() for tensor in (*weights, *optimizer_tensors(policy.optimizer, weights))]
    destroy()
    return metrics, state, held


def main() -> None:
    for case in json.loads(sys.argv[2]):
        metrics, state, held = steps(sys.argv[1], case, offload=True)
        plain_metrics, plain_state, plain_held = steps(sys.argv[1], case, offload=False)
        assert metrics == plain_metrics, (metrics, plain_metrics)
        assert len(state) == len(plain_state) > 10
        assert all(torch.equal(a, b) for a, b in zip(state, plain_state, strict=True))
        assert metrics[0]["grad_norm"] != metrics[1]["grad_norm"] > 0
        assert held["awake"] == plain_held["awake"] == plain_held["asleep"], "nothing is left behind"
        assert held["asleep"] == {"weights": held["awake"]["weights"], "gradients": 0, "optimizer": 0}
        assert min(held["awake"].values()) > 0
        if torch.distributed.get_rank() == 0:
            print("CASE HOLDS", flush=True)


if __name__ == "__main__":
    main()
