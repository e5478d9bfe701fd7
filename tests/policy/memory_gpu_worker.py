"""The rank of test_memory_gpu.py, on a GPU: an optimizer put away and brought back, and fused gradients.

Usage: python -m tests.policy.memory_gpu_worker MODEL_FOLDER OPTIMIZER_AS_JSON      (a process group of one)
"""

import json
import sys

import torch
from torch import Tensor

from pivotrl.config import parse_config
from pivotrl.policy import device, startup
from pivotrl.policy.memory import measured_bytes, optimizer_tensors
from pivotrl.policy.parallel import initialize
from pivotrl.policy.step import Policy
from tests.policy.checkpoint_ranks import batch


def main() -> None:
    tree = {"output": "unused", "model": {"path": sys.argv[1]}, "optimizer": json.loads(sys.argv[2])}
    config = parse_config(tree | {"training": {"offload": True}}, "test")
    policy = Policy(config, initialize(config.parallel, 0))
    startup.check(config, policy.arch)
    print("\n".join(startup.report(policy)))
    policy.train_step(batch(0), 0)

    weights = list(policy.model.parameters())
    on_gpu = [x for x in optimizer_tensors(policy.optimizer, weights) if x.device == device.current().torch_device]
    assert bool(on_gpu) != (config.optimizer.offload == 1)
    before, awake = [x.clone().cpu() for x in on_gpu], torch.cuda.memory_allocated()
    gone = measured_bytes(policy)["gradients"] + sum(x.untyped_storage().nbytes() for x in on_gpu)
    policy.sleep()
    freed = awake - torch.cuda.memory_allocated()
    assert 0.9 * gone < freed < 1.5 * gone, (gone, freed)
    policy.wake()
    assert all(torch.equal(x.cpu(), y) for x, y in zip(on_gpu, before, strict=True))
    assert policy.train_step(batch(1), 1)["grad_norm"] > 0

    def gradient() -> Tensor:
        policy.gradients(batch(2), denominator=10.0)
        return torch.cat([x.main_grad.flatten() for x in policy.model.parameters()]).clone()

    fused = gradient()
    modules = [x for chunk in policy.model for x in chunk.modules() if getattr(x, "fuse_wgrad_accumulation", False)]
    assert bool(modules) == device.current().transformer_engine
    for module in modules:
        module.fuse_wgrad_accumulation = False
    plain = gradient()
    error = ((fused - plain).norm() / plain.norm()).item()
    assert error < 2e-2, f"fused and plain gradients are {error} apart"  # plain ones are rounded to bfloat16
    print("GPU MEMORY HOLDS")


if __name__ == "__main__":
    main()
