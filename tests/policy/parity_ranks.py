"""One rank of test_parity.py: three steps on each of the cases given as JSON, and how far they are from the reference.

Usage (under torchrun): parity_ranks.py FOLDER '[{"ranks": ..., "parallel": {...}, ...}, ...]'
FOLDER holds a folder for each kind of model, which `parity_reference.make` wrote. Prints a line `CASE {...}` for each
case, by rank 0; its errors are those of all ranks' tensors.
"""

import contextlib
import json
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch
import torch.distributed as dist
from torch import Tensor

from pivotrl.policy import cpu, device
from pivotrl.policy.parallel import check_layout, destroy, initialize

device.prepare()

from megatron.core.tensor_parallel import gather_from_tensor_model_parallel_region  # noqa: E402

from pivotrl.objective.loss import global_denominator  # noqa: E402
from pivotrl.policy import head, step  # noqa: E402
from pivotrl.policy.hf_files import HfFiles  # noqa: E402
from pivotrl.policy.step import Policy  # noqa: E402
from tests.policy.float64 import Float64Only  # noqa: E402
from tests.policy.parity_cases import FIRST, Case  # noqa: E402
from tests.policy.parity_errors import errors, relative  # noqa: E402
from tests.policy.parity_reference import STEPS, run_config, samples_of  # noqa: E402


def check(folder: Path, case: Case, reference: dict[str, Any]) -> dict[str, Any]:
    """Train the case, and compare: see `parity_errors.errors`."""
    config = run_config(
        folder,
        model={"recompute": case.recompute},
        parallel=case.parallel,
        optimizer={"distributed": case.distributed},
        training={"micro_batch_tokens": case.tokens, "packing": case.packing},
    )
    if case.dtype != "float32":  # not a type that a run may have
        config = config.model_copy(update={"model": config.model.model_copy(update={"dtype": "float64"})})
    world = initialize(config.parallel, 0)
    policy = Policy(config, world)
    check_layout(config.parallel, policy.arch, world.world_size)
    samples = [samples_of(index) for index in range(STEPS)]
    denominators = [global_denominator(config.objective, [len(s.response_ids) for s in batch]) for batch in samples]

    found: dict[str, Any] = score(policy, samples[0])
    arguments = [(denominators[i], reference["old"][i], reference["reference"][i]) for i in range(STEPS)]
    take_step = policy.optimizer.step

    def step_of_the_first() -> Any:
        found["grads"] = gradients(policy)
        return take_step()

    with patch.object(policy.optimizer, "step", step_of_the_first):
        found |= policy.update(samples[0], 0, *arguments[0])
    for index in range(1, STEPS):
        policy.update(samples[index], index, *arguments[index])
    found["weights"] = {name: tensor.clone() for name, tensor in policy.export()}
    destroy()

    first = folder / "first.pt"
    if replace(case, model=FIRST.model) == FIRST and world.rank == 0:
        torch.save(found["grads"], first)
    result = errors(found, reference["exact"], reference["start"])
    if first.is_file() and case.dtype == "float32" and case.ranks > 1:
        result["to_first"] = relative(found["grads"], torch.load(first))[0]
    return result


def score(policy: Policy, samples: list) -> dict[str, list[Tensor]]:
    """For each sample the log-probs of its response tokens by the policy's head, and the logits there, of the whole
    vocabulary, by the model's output layer."""

    def keep(batch: Any, hidden_P1H: Tensor) -> tuple[Tensor, object]:
        model = policy.model[-1]
        shard_T1V, _ = model.output_layer(hidden_P1H, weight=model.head_weight())
        rows_NV = gather_from_tensor_model_parallel_region(shard_T1V)[batch.logit_index_N, 0]
        logp_N, _ = policy._token_log_probs(batch, hidden_P1H)
        return logp_N.sum(), (batch.sample_N, rows_NV.clone(), logp_N.clone())

    with torch.no_grad():
        plan = policy._plan(samples)
        assert plan.packing == policy.config.training.packing, plan.note
        outputs = policy._run(samples, plan, keep, forward_only=True)
    parts = [part for rank in policy._gather(outputs) for part in rank]
    sample_N, *columns = (torch.cat(column) for column in zip(*parts, strict=True))
    rows = [[column[sample_N == index] for index in range(len(samples))] for column in columns]
    return dict(zip(("logits", "log_probs"), rows, strict=True))


def gradients(policy: Policy) -> dict[str, Tensor]:
    """Every parameter's gradient as the optimizer will see it, whole, under its Hugging Face name."""
    if policy.config.optimizer.distributed:
        for ddp in policy.ddp:
            for buffer in [*ddp.buffers, *ddp.expert_parallel_buffers]:
                for bucket in buffer.buckets:  # each rank reduced its own part of every bucket
                    group = buffer.data_parallel_group
                    mine = bucket.grad_data.chunk(group.size())[group.rank()].clone()
                    dist.all_gather_into_tensor(bucket.grad_data, mine, group=group)
    parameters = list(policy.model.parameters())
    weights = [parameter.detach().clone() for parameter in parameters]
    with torch.no_grad():
        for parameter in parameters:
            parameter.copy_(parameter.main_grad)
        found = {name: tensor.clone() for name, tensor in policy.export()}
        for parameter, weight in zip(parameters, weights, strict=True):
            parameter.copy_(weight)
    return found


# ---------------------------------------------------------------------- mistakes made on purpose


def _own_denominator() -> Any:
    original = step.policy_loss
    return patch.object(step, "policy_loss", lambda config, tokens, _: original(config, tokens, len(tokens.logp_T)))


def _head_twice() -> Any:
    original = head.gather_from_sequence_parallel_region

    def gather(hidden: Tensor, tensor_parallel_output_grad: bool, group: Any) -> Tensor:
        return original(hidden, tensor_parallel_output_grad=True, group=group)

    return patch.object(head, "gather_from_sequence_parallel_region", gather)


def _one_response() -> Any:
    original = step.pack

    def pack(*args: Any, **kwargs: Any) -> Any:
        batch = original(*args, **kwargs)
        joined = [tree._replace(responses=tree.responses and (sum(tree.responses),)) for tree in batch.trees]
        return replace(batch, trees=tuple(joined))

    return patch.object(step, "pack", pack)


def _mean_over_ranks() -> Any:
    original = step.make_trainable

    def make(chunks: Any, *args: Any) -> Any:
        made = original(chunks, *args)
        for ddp in made[0]:
            for buffer in [*ddp.buffers, *ddp.expert_parallel_buffers]:
                for group in ddp.bucket_groups + ddp.expert_parallel_bucket_groups:
                    for bucket in group.buckets:
                        bucket.gradient_scaling_factor = 1 / buffer.data_parallel_group.size()
        return made

    return patch.object(step, "make_trainable", make)


def _norms_apart() -> Any:
    original = step.build_model

    def build(*args: Any, **kwargs: Any) -> Any:
        models = original(*args, **kwargs)
        for parameter in (parameter for model in models for parameter in model.parameters()):
            parameter.sequence_parallel = False
        return models

    return patch.object(step, "build_model", build)


FAULTS = {
    "": contextlib.nullcontext,
    "a denominator for each micro-batch": _own_denominator,
    "the head's gradient summed twice": _head_twice,
    "responses that see the ones before": _one_response,
    "a mean over data-parallel ranks": _mean_over_ranks,
    "norms without the sum over tensor ranks": _norms_apart,
}


FLOAT32_IN = {
    "": (),
    "RoPE float32": ("/rotary_pos_embedding.py",),
    "router float32": ("/moe/router.py", "/moe/moe_utils.py"),
}


@contextlib.contextmanager
def precision(dtype: str, folder: Path) -> Iterator[None]:
    """`float64`: all of it. Files are read outside, because what is stored as float32 must be read as that."""
    if dtype == "float32":
        yield
        return
    but = FLOAT32_IN[dtype.removeprefix("float64").removeprefix(", ")]
    files = HfFiles(folder)
    weights = {name: files.whole(name) for name in files.file_of}
    load_hf, engine = step.load_hf, cpu._ENGINE

    def run_backward(*args: Any, **kwargs: Any) -> Any:  # torch takes a mode off for a call of `backward`
        with Float64Only(but):
            return engine(*args, **kwargs)

    with (
        patch.object(step, "load_hf", lambda model, arch, _: load_hf(model, arch, weights)),
        patch.object(cpu, "_ENGINE", run_backward),
        Float64Only(but),
    ):
        yield


def main() -> None:
    for values in json.loads(sys.argv[2]):
        case = Case(**values)
        folder = Path(sys.argv[1]) / case.model
        reference = torch.load(folder / "reference.pt")
        with FAULTS[case.fault](), precision(case.dtype, folder):
            result = check(folder, case, reference)
        if dist.get_rank() == 0:
            print("CASE", json.dumps(result), flush=True)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
