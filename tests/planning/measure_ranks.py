"""One rank of test_measured.py: what real policies hold, beside what the plan says.

Usage (under torchrun): measure_ranks.py FOLDER '[{"kind": "moe", "parallel": {...}, ...}, ...]'
FOLDER/KIND holds config.json and weights, which test_measured.py wrote.
"""

import json
import sys
from pathlib import Path

import torch
import torch.distributed as dist
from allocations import Allocations

from pivotrl.config import parse_config
from pivotrl.planning.activations import Row, activation_bytes, cpu, gpu
from pivotrl.planning.static import element_size, trainer_bytes
from pivotrl.policy import device
from pivotrl.policy.memory import measured_bytes
from pivotrl.policy.packing import Sample, pack
from pivotrl.policy.parallel import destroy, initialize
from pivotrl.policy.step import Policy

PROMPT, RESPONSE, GROUP = 400, 81, 8


def samples_of(prompts: int) -> list[Sample]:
    return [
        Sample([(7 * i + p) % 500 for i in range(PROMPT)], [(11 * i + g) % 500 for i in range(RESPONSE)], advantage=1.0)
        for p in range(prompts)
        for g in range(GROUP)
    ]


def check(folder: Path, case: dict) -> None:
    config = parse_config(
        {
            "output": str(folder / "run"),
            "model": {"path": str(folder / case.get("kind", "moe"))} | case.get("model", {"dtype": "float32"}),
            "parallel": case.get("parallel", {}),
            "rollout": {"temperature": 0.5},  # no log-probs of a sampler are needed
            "training": {"micro_batch_tokens": 1100, "packing": case.get("packing", "prompt_once")},
            "optimizer": case.get("optimizer", {}),
        },
        "test",
    )
    world = initialize(config.parallel, 0)
    policy = Policy(config, world)
    samples = samples_of(case.get("prompts", 1))
    denominator = float(RESPONSE * len(samples))
    on_gpu = device.current().kind == "cuda"
    if on_gpu:
        before = torch.cuda.memory_allocated()
        torch.cuda.reset_peak_memory_stats()
        policy.gradients(samples, denominator)
        peak = torch.cuda.max_memory_allocated() - before
    else:
        with Allocations() as seen:
            policy.gradients(samples, denominator)
        peak = seen.peak
    with device.scope():
        policy.optimizer.step()  # Adam's moments exist from here
    measured = measured_bytes(policy) | {"activations": peak}

    plan = policy._plan(samples)
    mine = [pack(samples, pieces, world.tp_size, device.current().torch_device) for pieces in plan.ranks[world.dp_rank]]
    row = Row(max(batch.input_ids.shape[1] for batch in mine), max(len(batch.target_N) for batch in mine), plan.packing)
    element = element_size(config.model.dtype)
    held = trainer_bytes(config, policy.arch, world.world_size, world.pp_rank, world.dp_rank)
    backend = gpu(element) if on_gpu else cpu(element)
    activations = activation_bytes(
        policy.arch, config.parallel, element, backend, row, config.model.recompute, world.pp_rank, len(mine)
    )
    predicted = {
        "weights": held.weights,
        "gradients": held.gradients,
        "optimizer": held.optimizer,
        "activations": activations.peak,
    }
    result = {"rank": world.rank, "case": case, "measured": measured, "predicted": predicted}
    everyone: list = [None] * world.world_size
    dist.all_gather_object(everyone, result, group=world.object_group)
    if world.rank == 0:
        for one in everyone:
            print("CASE", json.dumps(one), flush=True)
    destroy()


def main() -> None:
    for case in json.loads(sys.argv[2]):
        check(Path(sys.argv[1]), case)


if __name__ == "__main__":
    main()
