"""The rank of test_precision.py: what bfloat16 weights would lose is kept, and what gradients and activations cost.

Usage: python -m tests.policy.precision_worker MODEL_FOLDER      (a process group of one; prints JSON)
"""

import json
import sys

import torch
from torch import Tensor

from pivotrl.config import parse_config
from pivotrl.policy import device
from pivotrl.policy.memory import measured_bytes, storage_bytes
from pivotrl.policy.packing import Sample, pack
from pivotrl.policy.parallel import destroy, initialize
from pivotrl.policy.step import Policy

LR, STEPS = 5e-5, 30
"""Half the distance between neighbours in bfloat16 is 2.4e-4 for weights between 1/16 and 1/8, 9 steps of Adam's."""
SAVERS = [{}, {"distributed": False}, {"offload": 1.0}, {"offload": 0.4}]


def batch(count: int) -> list[Sample]:
    draw = torch.Generator().manual_seed(4)

    def tokens(count: int) -> list[int]:
        return torch.randint(1, 96, (count,), generator=draw).tolist()

    return [Sample(tokens(9), tokens(5), [-2.0] * 5, 1.0 - index % 3) for index in range(count)]


def made(folder: str, model: dict | None = None, **sections: dict) -> Policy:
    tree = {
        "output": "unused",
        "model": {"path": folder, **(model or {})},
        "training": {"packing": "plain"},
        **sections,
    }
    config = parse_config(tree, "test")
    return Policy(config, initialize(config.parallel, 0))


def weights(policy: Policy) -> dict[str, Tensor]:
    return {name: parameter.detach().clone() for name, parameter in policy.model.named_parameters()}


def tiny_updates(folder: str, saver: dict) -> dict:
    """Shares of the weights between 1/16 and 1/8 that differ from the first after one step and after all of them."""
    policy = made(folder, optimizer={"lr": LR, "weight_decay": 0.0, **saver})
    first = weights(policy)
    middle = {name: (weight.abs() > 1 / 16) & (weight.abs() < 1 / 8) for name, weight in first.items()}

    def moved() -> float:
        now = weights(policy)
        changed = sum(((now[name] != first[name]) & middle[name]).sum().item() for name in first)
        return changed / sum(mask.sum().item() for mask in middle.values())

    found = set()
    for module in policy.model.modules():
        if type(module).__name__ == "BalancedRouter":
            module.register_forward_hook(lambda module, inputs, output: found.add(output[0].dtype))
    samples = batch(6)
    shares = []
    for step in range(STEPS):
        policy.train_step(samples, step)
        if step in (0, STEPS - 1):
            shares.append(moved())
    assert found == {torch.float32}, f"routers of a bfloat16 model gave {found}"
    held = measured_bytes(policy)
    parameters = sum(weight.numel() for weight in first.values())
    last = torch.cat([weight.flatten() for weight in weights(policy).values()]).float()
    adam = type(policy.optimizer.chained_optimizers[0].optimizer).__name__
    destroy()
    return {
        "saver": saver,
        "adam": adam,
        "moved": shares,
        "bytes": {k: v / parameters for k, v in held.items()},
        "last": last,
    }


def accumulation(folder: str, fused: bool) -> dict[str, float]:
    """Relative errors of the gradient of 24 micro-batches: ours, and a bfloat16 sum, against a float64 sum of each."""
    policy = made(folder, training={"micro_batch_tokens": 16, "packing": "plain"}, optimizer={"distributed": False})
    samples = batch(24)

    def gradient(chosen: list[Sample]) -> Tensor:
        policy.gradients(chosen, denominator=100.0)
        return torch.cat([parameter.main_grad.flatten() for parameter in policy.model.parameters()])

    ours = gradient(samples)
    assert ours.dtype == torch.float32
    assert bool(_FUSED_CALLS) == fused, f"the fused kernel was called {len(_FUSED_CALLS)} times"
    exact, low = torch.zeros_like(ours, dtype=torch.float64), torch.zeros_like(ours, dtype=torch.bfloat16)
    for sample in samples:
        part = gradient([sample])
        exact += part
        low += part.bfloat16()
    destroy()

    def error(found: Tensor) -> float:
        return float((found.double() - exact).norm() / exact.norm())

    return {"ours": error(ours), "bfloat16": error(low), "norm": float(exact.norm())}


_FUSED_CALLS: list[int] = []


def pretend_apex() -> None:
    """Apex's kernel as its documentation has it, on the CPU."""
    import dataclasses
    import types

    from megatron.core.tensor_parallel import layers

    def accumulate(total_input: Tensor, grad_output: Tensor, main_grad: Tensor) -> None:
        _FUSED_CALLS.append(1)
        main_grad.addmm_(grad_output.t().float(), total_input.float())

    layers.fused_weight_gradient_mlp_cuda = types.SimpleNamespace(wgrad_gemm_accum_fp32=accumulate)
    layers._grad_accum_fusion_available = True
    here = dataclasses.replace(device.current(), gradient_fusion="apex")
    device.current = lambda: here


def routers(folder: str, frozen: bool) -> dict[str, bool]:
    """Whether the routers, and everything else, moved bit for bit in a step."""
    policy = made(folder, {"freeze_router": frozen, "dtype": "float32"}, optimizer={"lr": 1e-3})
    first = weights(policy)
    policy.train_step(batch(6), 0)
    now = weights(policy)
    same = {name: torch.equal(now[name], first[name]) for name in first}
    destroy()
    return {
        "routers": not any(unmoved for name, unmoved in same.items() if ".router." in name),
        "others": not all(unmoved for name, unmoved in same.items() if ".router." not in name),
    }


def kept_activations(folder: str, recompute: str) -> tuple[int, float]:
    """Bytes that the forward pass keeps for the backward pass besides weights, and the gradient's norm."""
    policy = made(folder, {"recompute": recompute, "dtype": "float32"})
    samples = batch(8)
    row = pack(samples, [(index,) for index in range(8)], 1, torch.device("cpu"))
    from pivotrl.policy.attention import packed_params

    kept: list[Tensor] = []
    known = {parameter.untyped_storage()._cdata for parameter in policy.model.parameters()}

    def keep(tensor: Tensor) -> Tensor:
        if tensor.untyped_storage()._cdata not in known:
            kept.append(tensor)
        return tensor

    with device.scope(), torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        policy.ddp[0](row.input_ids, row.position_ids, None, packed_seq_params=packed_params(row, "plain"))
    size = storage_bytes(kept)
    norm = policy.train_step(samples, 0)["grad_norm"]
    destroy()
    return size, norm


def main() -> None:
    folder = sys.argv[1]
    updates = [tiny_updates(folder, saver) for saver in SAVERS]
    reference = updates[0]["last"]
    for update in updates:
        update["apart"] = float((update.pop("last") - reference).norm() / reference.norm())
    result = {
        "updates": updates,
        "accumulation": accumulation(folder, fused=False),
        "routers": {str(frozen): routers(folder, frozen) for frozen in (False, True)},
        "activations": {how: kept_activations(folder, how) for how in ("none", "selective", "full")},
    }
    pretend_apex()
    result["fused"] = accumulation(folder, fused=True)
    print("RESULT", json.dumps(result))


if __name__ == "__main__":
    main()
