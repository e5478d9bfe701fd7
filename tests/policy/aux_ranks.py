"""One rank of test_aux_loss.py: the load-balancing loss and its gradient against plain PyTorch, on several layouts.

Usage (under torchrun): aux_ranks.py FOLDER '[{"parallel": {...}, "training": {...}, "model": {...}}, ...]'
FOLDER holds the model of `tiny.build("moe")`.

Legend: T = tokens of a micro-batch, E = experts.
"""

import json
import sys

import torch
from torch import Tensor

from pivotrl.config import parse_config
from pivotrl.policy import device
from pivotrl.policy.packing import Sample, pack
from pivotrl.policy.parallel import destroy, initialize
from pivotrl.policy.step import Policy
from tests.policy.tiny import build, on_disk

COEFFICIENT, TOP_K = 0.7, 2


def batch() -> list[Sample]:
    """Uneven groups that share prompts. No advantages: the objective itself has no gradient."""
    draw = torch.Generator().manual_seed(3)

    def tokens(count: int) -> list[int]:
        return torch.randint(1, 96, (count,), generator=draw).tolist()

    prompts = [tokens(count) for count in (11, 4, 17)]
    sizes = [(0, 3), (0, 6), (0, 1), (1, 4), (2, 7), (2, 5)]
    return [Sample(prompts[prompt], tokens(response), [-2.0] * response, 0.0) for prompt, response in sizes]


def expected(samples: list[Sample], micro_batches: list) -> tuple[float, dict[str, Tensor]]:
    """The loss without its coefficient, as a mean over layers, and the gradient with it, by transformers' layers."""
    model = build("moe")
    caught: list[Tensor] = []
    for layer in model.model.layers:
        gate = layer.mlp.gate
        gate.register_forward_pre_hook(lambda gate, inputs: caught.append(inputs[0].flatten(0, -2) @ gate.weight.T))
    logits = []
    for sample in samples:
        caught.clear()
        model(input_ids=torch.tensor([[*sample.prompt_ids, *sample.response_ids[:-1]]]))
        logits.append(list(caught))
    packed = [pack(samples, pieces, 1, torch.device("cpu")).segments for pieces in micro_batches]
    total = sum(segment.length for segments in packed for segment in segments)
    loss = torch.zeros(())
    for segments in packed:
        for layer in range(len(caught)):
            rows = [logits[s.sample][layer][s.position : s.position + s.length] for s in segments]
            probs_TE = torch.cat(rows).softmax(-1)
            chosen_E = probs_TE.topk(TOP_K).indices.flatten().bincount(minlength=probs_TE.shape[1])
            count = len(probs_TE)
            fraction_E = chosen_E / (TOP_K * count)
            loss = loss + count / total * probs_TE.shape[1] * (fraction_E * probs_TE.mean(0)).sum()
    (COEFFICIENT * loss).backward()
    grads = {name: torch.zeros_like(p) if p.grad is None else p.grad for name, p in model.named_parameters()}
    return loss.item() / len(caught), on_disk(grads)


def check(folder: str, case: dict) -> dict[str, float]:
    config = parse_config(
        {
            "output": "unused",
            "model": {"path": folder, "dtype": "float32", "aux_loss": COEFFICIENT, **case.get("model", {})},
            "parallel": case.get("parallel", {}),
            "training": {"micro_batch_tokens": 24, **case.get("training", {})},
            "optimizer": {"distributed": False},
        },
        "test",
    )
    world = initialize(config.parallel, 0)
    policy = Policy(config, world)
    samples = batch()
    metrics = policy.gradients(samples, denominator=1.0)
    micro_batches = [pieces for rank in policy._plan(samples).ranks for pieces in rank if pieces]
    value, grads = expected(samples, micro_batches)
    with torch.no_grad(), device.scope():
        for parameter in policy.model.parameters():
            parameter.copy_(parameter.main_grad)
        ours = {name: tensor.clone() for name, tensor in policy.export()}
    norm = sum(grad.double().square().sum() for grad in grads.values()).sqrt()
    difference = sum((ours[name] - grads[name]).double().square().sum() for name in ours).sqrt()
    result = {"value": metrics["aux_loss"] / value - 1, "gradient": float(difference / norm), "norm": float(norm)}
    destroy()
    return result


def main() -> None:
    for case in json.loads(sys.argv[2]):
        result = check(sys.argv[1], case)
        if torch.distributed.get_rank() == 0:
            print("CASE", json.dumps({"case": case} | result), flush=True)


if __name__ == "__main__":
    main()
