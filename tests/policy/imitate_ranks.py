"""One rank of test_imitate.py: the cross entropy of masked rows and its gradient, on layouts given as JSON.

Usage (under torchrun): imitate_ranks.py FOLDER '[{"parallel": {...}, ...}, ...]'
FOLDER holds the model and reference.pt, which test_imitate.py wrote with transformers.
"""

import json
import sys
from dataclasses import replace
from itertools import groupby
from pathlib import Path

import torch

from pivotrl.config import parse_config
from pivotrl.policy import device
from pivotrl.policy.packing import Sample
from pivotrl.policy.parallel import destroy, initialize
from pivotrl.policy.step import Policy


def check(folder: Path, reference: dict, case: dict) -> None:
    config = parse_config(
        {
            "output": str(folder / "run"),
            "model": {"path": str(folder), "dtype": "float32"},
            "parallel": case.get("parallel", {}),
            "rollout": {"temperature": 0.7},  # of sampling, which imitation does not read
            "objective": {"beta": 0.1},
            "training": {"micro_batch_tokens": case.get("micro_batch_tokens", 64)},
            "optimizer": {"lr": 1e-12, "clip_grad": 0, "distributed": False},
        },
        "test",
    )
    world = initialize(config.parallel, 0)
    policy = Policy(config, world)
    samples = [Sample(prompt, response, mask=mask) for prompt, response, mask in reference["samples"]]
    scored = policy.log_probs(samples, temperature=1.0)
    chained = gradient_of(policy, [replace(s, advantage=0.5 - n, sampler_log_probs=()) for n, s in enumerate(samples)])
    apart = gradient_of(policy, [turn for n, s in enumerate(samples) for turn in turns_of(s, 0.5 - n)])
    metrics = policy.imitate(samples, 0)
    with torch.no_grad(), device.scope():
        for parameter in policy.model.parameters():
            parameter.copy_(parameter.main_grad)
        ours = {name: tensor.clone() for name, tensor in policy.export()}
    assert ours.keys() == reference["grads"].keys()
    difference = sum((ours[name] - reference["grads"][name]).double().square().sum() for name in ours).sqrt()
    norm = sum(tensor.double().square().sum() for tensor in reference["grads"].values()).sqrt()
    result = {
        "case": case,
        "loss": abs(metrics["loss"] / reference["loss"] - 1),
        "scored": abs(-sum(row.sum() for row in scored).item() / sum(map(len, scored)) / reference["loss"] - 1),
        "grads": (difference / norm).item(),
        "chained": ((chained - apart).norm() / apart.norm()).item(),
        "norm": abs(metrics["grad_norm"] / norm.item() - 1),
    }
    if world.rank == 0:
        print("CASE", json.dumps(result), flush=True)
    destroy()


def gradient_of(policy: Policy, samples: list[Sample]) -> torch.Tensor:
    """Of the policy loss at a temperature of 0.7 with a reference, on this rank's parameters."""
    reference = [torch.full((len(sample.targets),), -2.0) for sample in samples]
    policy.gradients(samples, sum(len(sample.targets) for sample in samples), None, reference)
    with device.scope():
        return torch.cat([parameter.main_grad.flatten().clone() for parameter in policy.model.parameters()])


def turns_of(sample: Sample, advantage: float) -> list[Sample]:
    """Each stretch of targets as a sample of its own, behind all that precedes it."""
    turns, ids, first = [], [*sample.prompt_ids, *sample.response_ids], len(sample.prompt_ids)
    for _, stretch in groupby(enumerate(sample.targets), lambda pair: pair[1] - pair[0]):
        places = [place for _, place in stretch]
        turns.append(Sample(ids[: first + places[0]], ids[first + places[0] : first + places[-1] + 1]))
    return [replace(turn, advantage=advantage) for turn in turns]


def main() -> None:
    folder = Path(sys.argv[1])
    reference = torch.load(folder / "reference.pt", weights_only=True)
    for case in json.loads(sys.argv[2]):
        check(folder, reference, case)


if __name__ == "__main__":
    main()
