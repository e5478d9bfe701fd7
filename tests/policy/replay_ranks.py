"""One rank of test_router_replay.py: routes replayed and recorded on layouts given as JSON, against transformers.

Usage (under torchrun): replay_ranks.py FOLDER '[{"parallel": {...}, "model": {...}, "training": {...}}, ...]'
FOLDER is what `replay_reference.make` wrote. Prints a line `CASE {...}` with the errors of each case.
"""

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch

from pivotrl.config import parse_config
from pivotrl.policy import device
from pivotrl.policy.packing import Sample
from pivotrl.policy.parallel import World, check_layout, destroy, initialize
from pivotrl.policy.routes import lay
from pivotrl.policy.step import Policy
from pivotrl.policy.weights import load_hf
from tests.policy.replay_reference import OBJECTIVE, TOP_K, largest_gap


def policy_of(folder: Path, case: dict, mode: str, world: World | None = None, **training: Any) -> Policy:
    config = parse_config(
        {
            "output": "unused",
            "model": {"path": str(folder), "dtype": "float32", **case.get("model", {})},
            "parallel": case.get("parallel", {}),
            "objective": OBJECTIVE,
            "training": {"micro_batch_tokens": 24, "router_replay": mode, **case.get("training", {}), **training},
            "optimizer": {"lr": 1e-2, "distributed": False},
        },
        "test",
    )
    world = world or initialize(config.parallel, 0)
    policy = Policy(config, world)
    check_layout(config.parallel, policy.arch, world.world_size)
    return policy


def gradients(policy: Policy) -> dict[str, torch.Tensor]:
    """Whole gradients, by Hugging Face names."""
    with torch.no_grad(), device.scope():
        weights = [parameter.detach().clone() for parameter in policy.model.parameters()]
        for parameter in policy.model.parameters():
            parameter.copy_(parameter.main_grad)
        found = {name: tensor.clone() for name, tensor in policy.export()}
        for parameter, weight in zip(policy.model.parameters(), weights, strict=True):
            parameter.copy_(weight)
    return found


def relative(ours: dict[str, torch.Tensor], theirs: dict[str, torch.Tensor]) -> dict[str, float]:
    """Norm of the difference to the norm, of all parameters and of the routers'."""
    assert ours.keys() == theirs.keys()

    def norm(tensors: list[torch.Tensor]) -> float:
        return sum(tensor.square().sum() for tensor in tensors).sqrt().item()

    result = {}
    for part in ("", "mlp.gate.weight"):
        names = [name for name in ours if part in name]
        result[part or "all"] = norm([ours[n] - theirs[n] for n in names]) / norm([theirs[n] for n in names])
    return result


def replays_the_engine(folder: Path, reference: dict, case: dict) -> tuple[World, dict]:
    """The samples' routes in both passes: log-probs, and the gradient of the definition."""
    policy = policy_of(folder / "now", case, "engine")
    samples: list[Sample] = reference["samples"]
    free = policy.log_probs(samples)
    with policy.routes.old_policy():
        old = policy.log_probs(samples)
    metrics = policy.gradients(samples, reference["denominator"], old=old)
    result = {
        "free": largest_gap(free, reference["free"]),
        "forced": largest_gap(old, reference["forced"]),
        "moved": largest_gap(old, free),
        "loss": abs(metrics["loss"] - reference["loss"]),
        "grads": relative(gradients(policy), reference["grads"]),
        **policy.routes.metrics(),
    }
    policy.gradients(samples, reference["denominator"], old=free)
    result["grads_with_free_old"] = relative(gradients(policy), reference["grads"])
    return policy.world, result


def replays_the_old_policy(world: World, folder: Path, reference: dict, case: dict) -> dict:
    """Recorded under one model, replayed under it (bit for bit the same) and under another."""
    policy = policy_of(folder / "now", case, "trainer", world, updates_per_batch=2)
    samples: list[Sample] = reference["samples"]
    with policy.routes.old_policy():
        policy.log_probs(samples)
    routes, lengths = reference["choices"], [len(sample.prompt_ids) for sample in samples]
    layers = sorted(policy.routes.layers)
    for batch, segments in enumerate(policy.routes._recorded_for):
        ours = torch.stack([policy.routes.layers[index].recorded[batch] for index in layers], 1)
        assert ours.dtype == torch.uint8
        size = world.tp_size
        theirs = lay(segments, routes, lengths, layers, (len(ours) * size, TOP_K))
        theirs = theirs[world.tp_rank * len(ours) : (world.tp_rank + 1) * len(ours)]
        known = (theirs >= 0).all((1, 2))
        same = np.sort(ours.numpy(), -1)[known] == np.sort(theirs, -1)[known]
        assert same.all(), f"{(~same).sum()} of {same.size} routes are not transformers'"
    policy.gradients(samples, 1.0)
    replayed = gradients(policy)
    share = policy.routes.metrics()["replayed_share"]
    policy.routes.forget()
    policy.gradients(samples, 1.0)
    anew = gradients(policy)
    assert all(torch.equal(replayed[name], anew[name]) for name in anew), "the same routes, other gradients"
    assert policy.routes.metrics()["replayed_share"] == 0.0

    with torch.no_grad(), device.scope():
        load_hf(policy.model, policy.arch, folder / "before")
        with policy.routes.recording():
            policy.log_probs(samples)
        load_hf(policy.model, policy.arch, folder / "now")
    with policy.routes.replaying():
        replay = policy.log_probs(samples)
    policy.routes.forget()
    learned = policy.train_step(samples, 0)
    return {
        "share": share,
        "old_routes": largest_gap(replay, reference["old_routes"]),
        "old_routes_moved": largest_gap(replay, reference["free"]),
        "step_share": learned["replayed_share"],
        "ratio": learned["ratio"],
    }


def main() -> None:
    device.prepare()
    folder = Path(sys.argv[1])
    reference = torch.load(folder / "reference.pt", weights_only=False)
    for case in json.loads(sys.argv[2]):
        world, result = replays_the_engine(folder, reference, case)
        result["trainer"] = replays_the_old_policy(world, folder, reference, case)
        if world.rank == 0:
            print("CASE", json.dumps(result), flush=True)
        destroy()


if __name__ == "__main__":
    main()
