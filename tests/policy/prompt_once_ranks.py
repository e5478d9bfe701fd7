"""One rank of test_prompt_once.py: trees against plain rows by the same policy, on layouts given as JSON, and mistakes.

Usage (under torchrun): prompt_once_ranks.py MODEL_FOLDER '[{"parallel": {...}, "recompute": ..., "mistakes": true}]'
"""

import json
import sys
from typing import Any
from unittest import mock

import torch
import torch.distributed as dist
from torch import Tensor

from pivotrl.config import parse_config
from pivotrl.policy import device
from pivotrl.policy.packing import Sample
from pivotrl.policy.parallel import World, destroy, initialize
from pivotrl.policy.step import Policy
from pivotrl.policy.tree_attention import Layout, Tree

device.prepare()

from pivotrl.policy import attention, head  # noqa: E402


def make_samples() -> list[Sample]:
    """Three prompts of several samples, one of them of one token; a group of one; a prompt that two groups drew."""
    draw = torch.Generator().manual_seed(3)

    def tokens(count: int) -> list[int]:
        return torch.randint(1, 96, (count,), generator=draw).tolist()

    prompts = [tokens(length) for length in (23, 1, 9, 16)]
    drawn = [(0, 7), (0, 1), (0, 12), (1, 3), (1, 4), (2, 6), (3, 5), (3, 5), (3, 1), (0, 7), (0, 2), (0, 12)]
    advantages = torch.randn(len(drawn), generator=draw).tolist()
    return [
        Sample(prompts[prompt], tokens(response), [-3.0] * response, advantage)
        for (prompt, response), advantage in zip(drawn, advantages, strict=True)
    ]


def result(policy: Policy, samples: list[Sample], packing: str, budget: int) -> dict[str, Any]:
    """Log-probs, gradients of this rank's parameters and tokens' gain, with that packing."""
    training = policy.config.training.model_copy(update={"packing": packing, "micro_batch_tokens": budget})
    policy.config = policy.config.model_copy(update={"training": training})
    log_probs = torch.cat(policy.log_probs(samples))
    metrics = policy.gradients(samples, denominator=float(len(log_probs)))
    grads = {name: parameter.main_grad.clone() for name, parameter in policy.model.named_parameters()}
    return {"log_probs": log_probs, "grads": grads, "gain": metrics["prompt_once_gain"], "loss": metrics["loss"]}


def errors(found: dict[str, Any], expected: dict[str, Any], world: World) -> dict[str, float]:
    """The largest of any rank: of a log-prob, absolute; of the gradient as a whole and of any parameter, relative."""

    def relative(a: Tensor, b: Tensor) -> float:
        return ((a - b).norm() / b.norm()).item() if b.norm() > 0 else a.norm().item()

    pairs = [(grad, expected["grads"][name]) for name, grad in found["grads"].items()]
    whole = [torch.cat([grad.flatten() for grad in side]) for side in zip(*pairs, strict=True)]
    mine = {
        "log_probs": (found["log_probs"] - expected["log_probs"]).abs().max().item(),
        "grads": relative(*whole),
        "worst": max(relative(*pair) for pair in pairs),
        "loss": abs(found["loss"] - expected["loss"]),
    }
    everyone: list = [None] * world.world_size
    dist.all_gather_object(everyone, mine, group=world.object_group)
    return {key: max(one[key] for one in everyone) for key in mine}


# ---------------------------------------------------------------------- mistakes


def positions_run_on(batch: Any, packing: str) -> Any:
    params = packed_params(batch, packing)
    params.max_seqlen_q = params.max_seqlen_kv = batch.input_ids.shape[1]
    batch.position_ids.copy_(torch.arange(batch.input_ids.shape[1])[None])
    return params


def responses_leak(batch: Any, packing: str) -> Any:
    params = packed_params(batch, packing)
    params.layout = Layout([Tree(0, batch.input_ids.shape[1], ())], torch.device("cpu"))
    return params


def prompt_hidden(batch: Any, packing: str) -> Any:
    params = packed_params(batch, packing)
    params.layout.crossings.clear()
    return params


def index_off_by_one(batch: Any, packing: str) -> Any:
    batch.logit_index_N.add_(1).clamp_(max=batch.input_ids.shape[1] - 1)
    return packed_params(batch, packing)


def gradient_scattered_twice(*args: Any, **kwargs: Any) -> Tensor:
    """The whole rows' gradient, already summed over the tensor-parallel ranks, summed again."""
    return gather_rows(*args, **kwargs | {"tensor_parallel_output_grad": True})


packed_params, gather_rows = attention.packed_params, head.gather_from_sequence_parallel_region
MISTAKES = {
    function.__name__: (attention, "packed_params", function)
    for function in (positions_run_on, responses_leak, prompt_hidden, index_off_by_one)
}
WITH_SEQUENCE_PARALLELISM = {
    "gradient_scattered_twice": (head, "gather_from_sequence_parallel_region", gradient_scattered_twice)
}


def check(folder: str, case: dict) -> dict[str, Any]:
    tree = {
        "output": "unused",
        "model": {"path": folder, "dtype": "float32", "recompute": case.get("recompute", "none")},
        "parallel": case.get("parallel", {}),
        "optimizer": {"distributed": False},
    }
    config = parse_config(tree, "test")
    world = initialize(config.parallel, 0)
    policy, samples = Policy(config, world), make_samples()
    plain = result(policy, samples, "plain", 64)
    found: dict[str, Any] = {"case": case, "plain_gain": plain["gain"]}
    for budget in (4096, 64, 30):
        once = result(policy, samples, "prompt_once", budget)
        found[str(budget)] = errors(once, plain, world) | {"gain": once["gain"]}
    mistakes = MISTAKES | (WITH_SEQUENCE_PARALLELISM if config.parallel.sequence_parallel else {})
    for name, (module, function, wrong) in mistakes.items() if case.get("mistakes") else ():
        with mock.patch.object(module, function, wrong):
            found[name] = errors(result(policy, samples, "prompt_once", 64), plain, world)
    destroy()
    return found


def main() -> None:
    for case in json.loads(sys.argv[2]):
        found = check(sys.argv[1], case)
        if dist.get_rank() == 0:
            print("CASE " + json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
