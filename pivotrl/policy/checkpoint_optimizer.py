"""What this rank holds of each parameter's main weight and Adam moments, in whichever of Megatron's optimizers.

Megatron has an optimizer for experts besides the one for everything else, one pair for each chunk, and each plain or
distributed, in float32 or with main weights; each saves its state in a form of its own. Here they all come down to
slots: [start, stop) of one flattened parameter, and the tensors that belong to those elements.

Megatron-Core 0.16.1 expects Adam's step count in the parameter group, where NVIDIA's fused optimizers keep it; torch,
without Transformer Engine and Apex, keeps one `step` tensor for each parameter. `get_step` and `set_step` know both.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

KINDS = ("main", "exp_avg", "exp_avg_sq")
"""Float32 main weight, and Adam's two moments."""


@dataclass(frozen=True, slots=True)
class Slot:
    """Elements [start, stop) of a flattened parameter, and what the optimizer has for them on this rank."""

    param: Tensor
    """The model's parameter, whole as it is on this rank."""
    start: int
    stop: int
    tensors: dict[str, Tensor]
    """Kind -> flat [stop - start]. The optimizer's own memory, so filling it in loads it, unless `store` is set."""
    exclusive: bool
    """No other data-parallel rank holds these elements (`optimizer.distributed`)."""
    store: Callable[[], None] | None = None
    """To be called after `tensors` were filled in, where the optimizer keeps another type and they are copies."""

    @property
    def main_is_weight(self) -> bool:
        """A float32 parameter is its own main weight."""
        return self.param.dtype == torch.float32


def init_state(optimizer: Any) -> None:
    """Give every parameter without a state empty moments and step 0, as Adam would in its first step."""
    for part in _parts(optimizer):
        for inner in _adams(part):
            if not _is_torch(inner):
                part.init_state_fn(inner, part.config)
                continue
            for group in inner.param_groups:
                for param in group["params"]:
                    if not inner.state[param]:
                        inner.state[param] = {
                            "step": torch.tensor(0.0),
                            "exp_avg": torch.zeros_like(param.data),
                            "exp_avg_sq": torch.zeros_like(param.data),
                        }
        if hasattr(part.optimizer, "sub_optimizers"):  # through which Megatron looks at their states, after a step only
            part.optimizer._sync_sub_optimizers_state_to_hdo()


def slots(optimizer: Any) -> Iterator[Slot]:
    """Everything that this rank holds. Needs `init_state` before the first step."""
    from megatron.core.optimizer.distrib_optimizer import DistributedOptimizer

    for part in _parts(optimizer):
        if isinstance(part, DistributedOptimizer):
            yield from _distributed(part)
            continue
        for param, main in _mains(part):
            state = part.optimizer.state[main]
            tensors = {"main": main.data} | {kind: state[kind] for kind in KINDS[1:]}
            yield Slot(param, 0, param.numel(), {k: x.view(-1) for k, x in tensors.items()}, exclusive=False)


def get_step(optimizer: Any) -> int | None:
    """Updates that Adam has done; None where this rank holds nothing."""
    steps = {int(step) for part in _parts(optimizer) for inner in _adams(part) for step in _steps(inner)}
    assert len(steps) <= 1, f"parameters are at different steps: {sorted(steps)}"
    return steps.pop() if steps else None


def set_step(optimizer: Any, step: int) -> None:
    """Let Adam go on as after `step` updates. Every parameter gets a tensor of its own: Adam counts up in place."""
    for part in _parts(optimizer):
        for inner in _adams(part):
            if _is_torch(inner):
                for state in inner.state.values():
                    state["step"] = torch.full_like(state["step"], step)
            else:
                for group in inner.param_groups:
                    found = group.get("step")
                    group["step"] = torch.full_like(found, step) if torch.is_tensor(found) else step


def _distributed(part: Any) -> Iterator[Slot]:
    """The distributed optimizer's ranges: slices of its gradient buffers, so of any parameter's flat elements."""
    copies = part.config.use_precision_aware_optimizer_no_fp8_or_ds_fp8
    for ranges in part.gbuf_ranges:
        for buckets in ranges.values():
            for bucket in buckets:
                for param, where in bucket["param_map"].items():
                    held = part._get_main_param_and_optimizer_states(param)
                    tensors = {kind: held["param" if kind == "main" else kind].data.view(-1) for kind in KINDS}
                    owned = where["param"]
                    store = None
                    if copies:

                        def store(param: Tensor = param, held: dict = held) -> None:
                            part._set_main_param_and_optimizer_states(param, held)

                    yield Slot(param, owned.start, owned.end, tensors, exclusive=True, store=store)


def _mains(part: Any) -> Iterator[tuple[Tensor, Tensor]]:
    """(the model's parameter, the tensor that Adam updates) of an optimizer that is not distributed."""
    if not hasattr(part, "fp32_from_float16_groups"):
        for group in part.optimizer.param_groups:
            yield from ((param, param) for param in group["params"])
        return
    for halves, mains in zip(part.float16_groups, part.fp32_from_float16_groups, strict=True):
        yield from zip(halves, mains, strict=True)
    for group in part.fp32_from_fp32_groups:
        yield from ((param, param) for param in group)


def _parts(optimizer: Any) -> list[Any]:
    """Megatron's optimizers, without those that have nothing to update on this rank."""
    return [part for part in getattr(optimizer, "chained_optimizers", [optimizer]) if part.optimizer is not None]


def _adams(part: Any) -> list[Any]:
    return getattr(part.optimizer, "sub_optimizers", [part.optimizer])  # Megatron's CPU-offloaded Adam is several


def _is_torch(inner: Any) -> bool:
    return isinstance(inner, torch.optim.Adam | torch.optim.AdamW)


def _steps(inner: Any) -> Iterator[Any]:
    if _is_torch(inner):
        yield from (state["step"] for state in inner.state.values())
    else:
        yield from (group["step"] for group in inner.param_groups if "step" in group and group["params"])
