"""One rank of test_step.py: the objective's gradient, and one optimizer step, on layouts given as JSON.

Usage (under torchrun): step_ranks.py FOLDER '[{"parallel": {...}, ...}, ...]'
FOLDER holds the model and reference.pt, which test_step.py wrote with transformers.
"""

import json
import sys
from pathlib import Path

import torch

from pivotrl.config import parse_config
from pivotrl.policy import device
from pivotrl.policy.packing import Sample
from pivotrl.policy.parallel import check_layout, destroy, initialize
from pivotrl.policy.step import Policy


def check(folder: Path, reference: dict, case: dict) -> None:
    config = parse_config(
        {
            "output": str(folder / "run"),
            "model": {"path": str(folder), "dtype": "float32"},
            "parallel": case.get("parallel", {}),
            "objective": reference["objective"],
            "training": {
                "micro_batch_tokens": case.get("micro_batch_tokens", 64),
                "packing": case.get("packing", "prompt_once"),
            },
            "optimizer": reference["optimizer"] | {"distributed": case.get("distributed", False)},
        },
        "test",
    )
    world = initialize(config.parallel, 0)
    policy = Policy(config, world)
    check_layout(config.parallel, policy.arch, world.world_size)
    samples = [Sample(*row) for row in reference["samples"]]

    log_prob_error = max(
        (ours - theirs).abs().max().item()
        for ours, theirs in zip(policy.log_probs(samples), reference["log_probs"], strict=True)
    )
    metrics = policy.gradients(
        samples, reference["denominator"], old=reference["old"], reference=reference["reference"]
    )
    grad_error = total_error = None
    if not config.optimizer.distributed:
        with torch.no_grad(), device.scope():
            weights = [parameter.detach().clone() for parameter in policy.model.parameters()]
            for parameter in policy.model.parameters():
                parameter.copy_(parameter.main_grad)
            ours = {name: tensor.clone() for name, tensor in policy.export()}
            for parameter, weight in zip(policy.model.parameters(), weights, strict=True):
                parameter.copy_(weight)
        assert ours.keys() == reference["grads"].keys(), ours.keys() ^ reference["grads"].keys()
        difference = {name: ours[name] - reference["grads"][name] for name in ours}
        grad_error = max(tensor.abs().max().item() for tensor in difference.values())
        norm = sum(tensor.square().sum() for tensor in reference["grads"].values()).sqrt()
        total_error = (sum(tensor.square().sum() for tensor in difference.values()).sqrt() / norm).item()

    policy_metrics = policy.update(samples, 0, reference["denominator"], reference["old"], reference["reference"])
    stepped = {name: tensor.clone() for name, tensor in policy.export()}
    step_error = max((stepped[name] - reference["stepped"][name]).abs().max().item() for name in stepped)
    if world.rank == 0:
        print(
            "CASE",
            json.dumps(
                {
                    "case": case,
                    "log_probs": log_prob_error,
                    "grads": grad_error,
                    "grads_relative": total_error,
                    "stepped": step_error,
                    "loss": metrics["loss"],
                    "gain": metrics["prompt_once_gain"],
                    "grad_norm": policy_metrics["grad_norm"],
                }
            ),
            flush=True,
        )
    destroy()


def main() -> None:
    folder = Path(sys.argv[1])
    reference = torch.load(folder / "reference.pt", weights_only=True)
    for case in json.loads(sys.argv[2]):
        check(folder, reference, case)


if __name__ == "__main__":
    main()
