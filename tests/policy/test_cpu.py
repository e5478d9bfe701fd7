"""Outside `device.scope()` torch is as it was, so that vLLM and transformers in the same process never notice."""

import pytest
import torch

from pivotrl.policy import cpu


@pytest.fixture
def untouched():
    """Everything that the scope replaces, before and after the test."""
    before = [owner.__dict__.get(name) for owner, name, _ in cpu._STAND_INS]
    yield
    assert [owner.__dict__.get(name) for owner, name, _ in cpu._STAND_INS] == before


def test_cuda_means_cpu_inside_only(untouched: None) -> None:
    with cpu.scope():
        assert torch.zeros(2, device="cuda").device.type == "cpu"
        assert torch.ones(1).to("cuda:0").cuda().device.type == "cpu"
        assert torch.ones(1).type() == "torch.cuda.FloatTensor"
        assert torch.cuda.current_device() == torch.device("cpu")
        torch.cuda.current_stream().wait_stream(torch.cuda.Stream())
        torch.ones(1).record_stream(torch.cuda.current_stream())
    assert torch.ones(1).type() == "torch.FloatTensor"
    if not torch.cuda.is_available():
        with pytest.raises((AssertionError, RuntimeError)):
            torch.zeros(2, device="cuda")


def test_nested_and_left_by_an_error(untouched: None) -> None:
    with pytest.raises(KeyError), cpu.scope(), cpu.scope():
        raise KeyError
    with cpu.scope():
        with cpu.scope():
            pass
        assert torch.zeros(1, device="cuda").device.type == "cpu", "the outer scope is still open"


def test_python_code_of_a_backward_pass_is_inside(untouched: None) -> None:
    class Probe(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, grad):
            return grad + torch.ones(grad.shape, device="cuda")

    leaf = torch.ones(3, requires_grad=True)
    with cpu.scope():
        Probe.apply(leaf).sum().backward()
        torch.autograd.backward(Probe.apply(leaf).sum())
    assert leaf.grad.tolist() == [4.0] * 3
