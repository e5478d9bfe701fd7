"""One rank of test_checkpoint.py: save on one layout, go on; load on each other one, go on, and compare.

Usage (under torchrun): checkpoint_ranks.py MODEL_FOLDER RUN_FOLDER '[{"parallel": ..., "optimizer": ...}, ...]'

The first case is saved after two steps and loaded by all, itself included.
"""

import json
import random
import sys
import threading
from pathlib import Path

import numpy
import torch
import torch.distributed as dist

from pivotrl.config import parse_config
from pivotrl.policy import device, parallel
from pivotrl.policy.checkpoint import Checkpoints
from pivotrl.policy.checkpoint_write import Writing
from pivotrl.policy.packing import Sample
from pivotrl.policy.step import Policy

SAVED, STEPS = 2, 4


def batch(step: int) -> list[Sample]:
    draw = random.Random(step)

    def tokens(count: int) -> list[int]:
        return [draw.randrange(1, 90) for _ in range(count)]

    return [Sample(tokens(5 + i), tokens(3), [-1.0] * 3, draw.choice([-1.0, 1.0])) for i in range(6)]


def make(model: str, run: Path, case: dict) -> Policy:
    optimizer = {"lr": 1e-3, "warmup_steps": 8, **case.get("optimizer", {})}
    tree = {"output": str(run), "model": {"path": model, "dtype": case.get("dtype", "float32")}, "seed": 5}
    tree |= {"parallel": case.get("parallel", {}), "optimizer": optimizer}
    tree |= {"training": {"steps": 9}, "checkpoint": {"every": 0, **case.get("checkpoint", {})}}
    config = parse_config(tree, "test")
    return Policy(config, parallel.initialize(config.parallel, config.seed))


def train(policy: Policy, steps: range) -> list[dict[str, float]]:
    return [policy.train_step(batch(step), step) for step in steps]


def weights(policy: Policy) -> dict[str, torch.Tensor]:
    return {name: tensor.clone() for name, tensor in policy.export()}


def stored(folder: Path) -> dict[str, torch.Tensor]:
    """Every tensor of a checkpoint, whole."""
    from megatron.core import dist_checkpointing

    with device.scope():
        return {
            key: tensor
            for key, tensor in dist_checkpointing.load_plain_tensors(str(folder)).items()
            if torch.is_tensor(tensor)
        }


def same(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Equal bit for bit, but for rows of zeros that pad a vocabulary."""
    rows = min(one.shape[0], other.shape[0])
    return torch.equal(one[:rows], other[:rows]) and not one[rows:].any() and not other[rows:].any()


def draws() -> list[float]:
    """The next number of every generator."""
    return [random.random(), float(numpy.random.rand()), float(torch.rand(()))]


def main() -> None:
    model, run, cases = sys.argv[1], Path(sys.argv[2]), json.loads(sys.argv[3])
    policy = make(model, run, cases[0])
    train(policy, range(SAVED))
    with Checkpoints(policy, run) as checkpoints:
        if policy.config.checkpoint.background:
            # What is trained before the files are written must not reach them.
            trained, write = threading.Event(), Writing.write
            Writing.write = lambda self, files: trained.wait(60) and write(self, files)
        checkpoints.save(SAVED)
        straight = train(policy, range(SAVED, STEPS))
        drawn = draws()
        if policy.config.checkpoint.background:
            assert not (run / "latest").exists()
            trained.set()
            Writing.write = write
    end, first = weights(policy), stored(run / f"step_{SAVED:06d}")
    rank = dist.get_rank()
    for number, case in enumerate([cases[0], *cases]):
        parallel.destroy()
        policy = make(model, run, case)
        with Checkpoints(policy, run) as checkpoints:
            assert checkpoints.resume() == SAVED
        again = run / f"again_{number}"
        with Checkpoints(policy, again) as checkpoints:
            checkpoints.save(SAVED)
        other = stored(again / f"step_{SAVED:06d}")
        changed = [key for key in first if key not in other or not same(first[key], other[key])]
        same_dtype = case.get("dtype") == cases[0].get("dtype")
        assert not same_dtype or (not changed and set(first) == set(other)), (case, changed[:3])
        metrics = train(policy, range(SAVED, STEPS))
        now = draws()
        found = weights(policy)
        errors = [(found[name].float() - end[name].float()).abs().max().item() for name in end]
        loss = max(abs(a["loss"] - b["loss"]) for a, b in zip(metrics, straight, strict=True))
        if number == 0:
            assert now == drawn, (now, drawn)
            if device.current().kind == "cpu":  # a GPU's sums come in any order
                assert metrics == straight and max(errors) == 0, (metrics, straight, max(errors))
        elif rank == 0:
            print("RESULT " + json.dumps({"case": case, "loss": loss, "weights": max(errors)}), flush=True)
    if rank == 0:
        print("RESUMED EQUAL", flush=True)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
