"""Experts on a CPU are packed straight into the live weights, as vLLM's own code packs them on the first load."""

from types import SimpleNamespace

import pytest
import torch

from pivotrl.rollout import environment
from pivotrl.rollout.landings import PrepackedExperts, Staging

EXPERTS, HIDDEN = 3, 64


@pytest.mark.parametrize("inner", [32, 40], ids=["whole", "padded"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_experts_are_packed_as_vllm_packs_them(inner: int, dtype: torch.dtype) -> None:
    environment.prepare()
    from vllm.model_executor.layers.fused_moe.activation import MoEActivation
    from vllm.model_executor.layers.fused_moe.experts.cpu_moe import CPUUnquantizedExperts

    kernel = object.__new__(CPUUnquantizedExperts)
    kernel.moe_config = SimpleNamespace(intermediate_size_per_partition=inner, activation=MoEActivation.SILU)
    raw = {
        "w13_weight": torch.randn(EXPERTS, 2 * inner, HIDDEN).to(dtype),
        "w2_weight": torch.randn(EXPERTS, HIDDEN, inner).to(dtype),
    }
    layer = torch.nn.Module()
    for name, tensor in raw.items():
        layer.register_parameter(name, torch.nn.Parameter(tensor.clone(), requires_grad=False))
    kernel.process_weights_after_loading(layer)
    truth = {name: parameter.data.clone() for name, parameter in layer.named_parameters()}
    layer.quant_method = SimpleNamespace(moe_kernel=SimpleNamespace(fused_experts=kernel))
    shared = Staging()
    for name, tensor in raw.items():
        live = getattr(layer, name).data
        place = live.data_ptr()
        for wrong in (torch.zeros_like(tensor), tensor):  # a staging tensor keeps the values of its last user
            landing = PrepackedExperts(name, layer, name, tuple(tensor.shape), shared)
            landing.close(landing.open().copy_(wrong))
        assert torch.equal(live, truth[name]) and getattr(layer, name).data_ptr() == place
    assert sum(len(free) for free in shared._free.values()) == len({tensor.shape for tensor in raw.values()})
