"""One rank of test_checkpoint.py: save, go on, load into a new policy, go on again; then damaged checkpoints.

Usage (under torchrun): checkpoint_ranks.py MODEL_FOLDER RUN_FOLDER '{"parallel": ..., "optimizer": ...}'
"""

import json
import random
import shutil
import sys
from pathlib import Path

import torch

from pivotrl.config import parse_config
from pivotrl.policy import checkpoint
from pivotrl.policy.packing import Sample
from pivotrl.policy.parallel import initialize
from pivotrl.policy.step import Policy


def batch(step: int) -> list[Sample]:
    draw = random.Random(step)

    def tokens(count: int) -> list[int]:
        return [draw.randrange(1, 96) for _ in range(count)]

    return [Sample(tokens(5 + i), tokens(3), [-1.0] * 3, draw.choice([-1.0, 1.0])) for i in range(6)]


def weights(policy: Policy) -> dict[str, torch.Tensor]:
    return {name: tensor.clone() for name, tensor in policy.export()}


def main() -> None:
    model, run, case = sys.argv[1], Path(sys.argv[2]), json.loads(sys.argv[3])
    config = parse_config(
        {"output": str(run), "model": {"path": model, "dtype": case.pop("dtype", "float32")}, **case}, "test"
    )
    world = initialize(config.parallel, 0)
    policy = Policy(config, world)
    for step in range(2):
        policy.train_step(batch(step), step)
    target = checkpoint.save(policy, run, 2, keep=1)
    straight = [policy.train_step(batch(step), step) for step in (2, 3)]
    end = weights(policy)

    resumed = Policy(config, world)
    assert checkpoint.resume(resumed, run) == 2
    again = [resumed.train_step(batch(step), step) for step in (2, 3)]
    assert again == straight, (again, straight)
    changed = [name for name, tensor in weights(resumed).items() if not torch.equal(tensor, end[name])]
    assert not changed, f"resumed weights differ: {changed[:3]}"
    if world.rank == 0:
        print("RESUMED EQUAL", flush=True)

    # Someone points back to step 2 while a step 6 is there: what is saved next is kept, and so is the other branch.
    if world.rank == 0:
        shutil.copytree(target, run / "step_000006")
    saved = checkpoint.save(resumed, run, 4, keep=1)
    if world.rank == 0:  # the only rank that looks at the folder, as it is the only one that changes it
        assert saved.is_dir()
        assert {path.name for path in run.glob("step_*")} == {"step_000004", "step_000006"}
        shutil.rmtree(run / "step_000004")
        (run / "step_000006").rename(target)
        (run / "latest").write_text(target.name)

    if world.world_size == 1:
        largest = max(target.glob("*.distcp"), key=lambda path: path.stat().st_size)
        for name, damage in {
            "missing shard": lambda: largest.rename(run / "hidden"),
            "cut shard": lambda: largest.write_bytes(largest.read_bytes()[:-2000]),
            "missing metadata": lambda: (target / ".metadata").unlink(),
        }.items():
            backup = run / "backup"
            shutil.copytree(target, backup)
            damage()
            try:
                checkpoint.resume(Policy(config, world), run)
            except ValueError as error:
                print("REFUSED", name, "|", error, flush=True)
            else:
                print("ACCEPTED", name, flush=True)
            shutil.rmtree(target)
            backup.rename(target)


if __name__ == "__main__":
    main()
