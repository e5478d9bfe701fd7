"""What Megatron's optimizers leave out when Adam is torch's own, as it is without Transformer Engine and Apex.

Megatron-Core 0.16.1 expects Adam's step count in the parameter group, where NVIDIA's fused optimizers keep it; torch
keeps one `step` tensor for each parameter. Three things follow for saving and loading, and each has a function here.
"""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor


def _torch_optimizers(optimizer: Any) -> Iterator[torch.optim.Optimizer]:
    for part in getattr(optimizer, "chained_optimizers", [optimizer]):
        if isinstance(part.optimizer, torch.optim.AdamW | torch.optim.Adam):
            yield part.optimizer


def init_state(optimizer: Any) -> None:
    """Give every parameter empty moments and step 0: Megatron describes a state to load only where one exists."""
    for inner in _torch_optimizers(optimizer):
        for group in inner.param_groups:
            for param in group["params"]:
                if not inner.state[param]:
                    inner.state[param] = {
                        "step": torch.tensor(0.0),
                        "exp_avg": torch.zeros_like(param.data),
                        "exp_avg_sq": torch.zeros_like(param.data),
                    }


def patch_distributed_load() -> None:
    """Let the distributed optimizer load parameters whose file holds no `step` (`fully_reshardable` format).

    Without it, loading stops with KeyError 'step'. May be called again.
    """
    from megatron.core.optimizer.distrib_optimizer import DistributedOptimizer

    original = DistributedOptimizer._set_main_param_and_optimizer_states
    if getattr(original, "keeps_step", False):
        return

    def set_states(self: Any, model_param: Tensor, tensors: dict[str, Tensor]) -> None:
        group, order = self.model_param_group_index_map[model_param]
        state = self.optimizer.state[self.optimizer.param_groups[group]["params"][order]]
        if "step" in state and "step" not in tensors:
            tensors = {**tensors, "step": state["step"]}
        original(self, model_param, tensors)

    set_states.keeps_step = True  # type: ignore[attr-defined]
    DistributedOptimizer._set_main_param_and_optimizer_states = set_states


def unalias_steps(optimizer: Any) -> None:
    """Give every parameter a step tensor of its own. Call after every load of the distributed optimizer's state.

    Megatron's load puts one tensor into many parameters' states, so AdamW would advance it once for each of them and
    the next step would be wrong without an error.
    """
    for inner in _torch_optimizers(optimizer):
        for state in inner.state.values():
            if torch.is_tensor(state.get("step")):
                state["step"] = state["step"].clone()
