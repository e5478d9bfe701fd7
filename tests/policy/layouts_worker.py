"""Run by `test_layouts.py` on several ranks: one model after another, on one layout after another.

Prints one JSON line for each pair: largest absolute errors over all ranks of logits and gradients against transformers,
for rows apart and for one packed row; the gradient norm's relative error; names of exported tensors that are not the
file's, byte for byte; and names of parameters that a checkpoint, written on the layout before, brought back changed.

usage: layouts_worker.py JOBS   where JOBS is JSON: [[folder, {"tensor": 2, ..., "recompute": "full"}], ...]
"""

import json
import os
import sys
from functools import partial
from pathlib import Path

import torch
import torch.distributed as dist

from pivotrl.policy import device, parallel
from pivotrl.policy.architecture import Architecture
from pivotrl.policy.config import ParallelConfig

device.prepare()

from megatron.core.distributed import (  # noqa: E402
    DistributedDataParallel,
    DistributedDataParallelConfig,
    finalize_model_grads,
)
from megatron.core.optimizer import OptimizerConfig, get_megatron_optimizer  # noqa: E402
from megatron.core.packed_seq_params import PackedSeqParams  # noqa: E402
from megatron.core.pipeline_parallel import get_forward_backward_func  # noqa: E402
from megatron.core.tensor_parallel import gather_from_tensor_model_parallel_region  # noqa: E402

from pivotrl.policy.head import PolicyModel  # noqa: E402
from pivotrl.policy.hf_files import HfFiles  # noqa: E402
from pivotrl.policy.mapping import moe_names  # noqa: E402
from pivotrl.policy.model import build_model  # noqa: E402
from pivotrl.policy.weights import (  # noqa: E402
    Exporter,
    export_hf,
    load_hf,
    load_model_weights,
    local_tensors,
    save_model,
)
from tests.policy.tiny import PACKED_LENGTHS  # noqa: E402


def padded_to(multiple: int, *rows: torch.Tensor) -> list[torch.Tensor]:
    missing = -rows[0].shape[0] % multiple
    return [torch.cat([row, row.new_zeros(missing)]) for row in rows]


def packed_batch(reference: dict, multiple: int) -> tuple:
    """One row of sequences end to end; padding is a last sequence of its own, with no loss."""
    inputs, labels, positions = (
        torch.cat([source[row, :length] for row, length in enumerate(PACKED_LENGTHS)])
        for source in (reference["inputs"], reference["labels"], torch.arange(64).expand(4, -1))
    )
    real = len(inputs)
    inputs, labels, positions = padded_to(multiple, inputs, labels, positions)
    lengths = [*PACKED_LENGTHS, len(inputs) - real][: 4 + (len(inputs) > real)]
    bounds = torch.tensor([0, *lengths]).cumsum(0).to(torch.int32)
    params = PackedSeqParams(
        qkv_format="thd",
        cu_seqlens_q=bounds,
        cu_seqlens_kv=bounds,
        max_seqlen_q=max(lengths),
        max_seqlen_kv=max(lengths),
    )
    return inputs[None], labels[None], positions[None], params, real


def run(model, world, batches: list[tuple], forward_only: bool = False) -> list[torch.Tensor]:
    """Forward and backward of the mean cross-entropy by the policy's head, on the first `real` tokens of each batch.

    Returns the whole logits of each batch, by Megatron's output layer, on the last stage.
    """
    core = model.module

    def loss_of(labels, real, hidden):
        with torch.no_grad():
            logits, _ = core.output_layer(hidden, weight=core.head_weight())
            whole = gather_from_tensor_model_parallel_region(logits)[:, 0, : core.vocabulary].clone()
        logp, _ = core.token_log_probs(hidden, torch.arange(real), labels[0, :real], temperature=1.0)
        return -logp.mean(), {"logits": whole}

    def step(data, chunk):
        inputs, labels, positions, params, real = next(data)
        hidden = chunk(inputs, positions, None, packed_seq_params=params)
        return hidden, partial(loss_of, labels, real)

    model.zero_grad_buffer()
    outputs = get_forward_backward_func()(
        forward_step_func=step,
        data_iterator=iter(batches),
        model=[model],
        num_microbatches=len(batches),
        seq_length=batches[0][0].shape[1],
        micro_batch_size=1,
        forward_only=forward_only,
    )
    return [output["logits"] for output in outputs]


def grad_error(core, arch, expected: dict) -> float:
    return max((live.main_grad - values).abs().max().item() for _, live, values in local_tensors(core, arch, expected))


def norm_error(model, expected: dict) -> float:
    """Relative error of the norm that Megatron's optimizer would clip by: it must count every weight once."""
    config = OptimizerConfig(optimizer="adam", lr=1.0, params_dtype=torch.float32)
    optimizer = get_megatron_optimizer(config, [model])
    optimizer.prepare_grads()
    true = sum(grad.double().square().sum() for grad in expected.values()).sqrt().item()
    error = abs(optimizer.get_grad_norm() / true - 1)
    optimizer.zero_grad()
    return error


def check(folder: str, layout: dict) -> dict:
    arch = Architecture.from_hf(folder)
    chosen = ParallelConfig(**{key: value for key, value in layout.items() if key != "recompute"})
    parallel.check_layout(chosen, arch, int(os.environ.get("WORLD_SIZE", "1")))
    world = parallel.initialize(chosen, seed=1)
    reference = torch.load(f"{folder}/reference.pt")
    (core,) = build_model(
        arch, chosen, torch.float32, recompute=layout.get("recompute", "none"), model_class=PolicyModel
    )
    load_hf(core, arch, folder)
    core.config.finalize_model_grads_func = finalize_model_grads
    model = DistributedDataParallel(core.config, DistributedDataParallelConfig(use_distributed_optimizer=False), core)

    rows, length = reference["inputs"].shape
    mine = range(world.dp_rank * rows // world.dp_size, (world.dp_rank + 1) * rows // world.dp_size)
    # Sequence parallelism needs a multiple of the tensor size; padding behind a causal row changes nothing before it.
    batches = []
    for row in mine:
        inputs, labels = padded_to(chosen.tensor, reference["inputs"][row], reference["labels"][row])
        batches.append((inputs[None], labels[None], torch.arange(len(inputs))[None], None, length))
    logits = run(model, world, batches)
    result = {"layout": layout, "model": folder.rsplit("/", 1)[-1]}
    errors = {"logits": 0.0, "packed_logits": 0.0}
    for row, output in zip(mine, logits, strict=False):
        errors["logits"] = max(errors["logits"], (output[:length] - reference["logits"][row]).abs().max().item())
    errors["grads"] = grad_error(core, arch, reference["grads"])
    errors["grad_norm"] = norm_error(model, reference["grads"])

    batch = packed_batch(reference, chosen.tensor)
    for output in run(model, world, [batch]):
        kept = torch.cat([reference["logits"][row, :n] for row, n in enumerate(PACKED_LENGTHS)])
        errors["packed_logits"] = (output[: batch[-1]] - kept).abs().max().item()
    errors["packed_grads"] = grad_error(core, arch, reference["packed_grads"])

    files = HfFiles(folder)
    errors["export"] = sorted(
        set(files.file_of) ^ {name for name, _ in export_hf(core, arch)}
        | {name for name, tensor in export_hf(core, arch) if not torch.equal(tensor, files.whole(name).float())}
        | stacked_differences(core, arch, files)
    )
    errors["reloaded"] = sorted(reloaded_differences(core, Path(folder) / "checkpoint", world))
    gathered: list = [None] * world.world_size
    dist.all_gather_object(gathered, errors, group=world.object_group)
    parallel.destroy()
    return result | {
        key: sorted({name for rank in gathered for name in rank[key]})
        if key in ("export", "reloaded")
        else max(rank[key] for rank in gathered)
        for key in errors
    }


def stacked_differences(core, arch, files: HfFiles) -> set[str]:
    """Names of stacked experts that differ, exported through buckets too small for two tensors."""
    wrong = set()
    for name, tensor in Exporter(core, arch, bucket_bytes=1).tensors(stack_experts=True):
        if not name.endswith(("experts.gate_up_proj", "experts.down_proj")):
            if not torch.equal(tensor, files.whole(name).float()):
                wrong.add(f"bucketed {name}")
            continue
        prefix, kind = name.rsplit(".", 1)
        names = moe_names(arch)
        parts = (names.gate, names.up) if kind == "gate_up_proj" else (names.down,)
        expected = torch.stack(
            [
                torch.cat([files.whole(f"{prefix}.{expert}.{part}.weight") for part in parts])
                for expert in range(arch.experts)
            ]
        )
        if not torch.equal(tensor, expected.float()):
            wrong.add(name)
    return wrong


def reloaded_differences(core, checkpoint: Path, world) -> set[str]:
    """Names of parameters that differ after loading the model's checkpoint, which the first layout to come wrote."""
    if not checkpoint.exists():
        dist.barrier()
        if world.rank == 0:
            checkpoint.mkdir()
        dist.barrier()
        save_model(core, checkpoint)
        dist.barrier()
    before = {name: parameter.detach().clone() for name, parameter in core.named_parameters()}
    with torch.no_grad():
        for parameter in core.parameters():
            parameter.fill_(torch.nan)
    load_model_weights(checkpoint, core)
    return {name for name, parameter in core.named_parameters() if not torch.equal(parameter, before[name])}


def main() -> None:
    for folder, layout in json.loads(sys.argv[1]):
        with device.scope():
            result = check(folder, layout)
        if dist.get_rank() == 0:
            print("RESULT " + json.dumps(result), flush=True)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
