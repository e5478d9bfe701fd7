"""The chunked head against the logits' own definition. Legend: N tokens, H hidden size, V columns."""

from pathlib import Path

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from pivotrl.objective import head, rows
from pivotrl.objective.head import CHUNK_BYTES, head_logprob
from pivotrl.objective.vocab import IGNORED
from tests.objective.head_cases import check, random_case
from tests.objective.mutants import mutant

GPU = pytest.param(
    "cuda",
    marks=[pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU")],
)


@pytest.fixture
def tiny_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """At most 5 rows of 24 float64 columns."""
    monkeypatch.setattr(head, "CHUNK_BYTES", 5 * 24 * 8)


class Outputs(TorchDispatchMode):
    """Records the bytes of the largest memory behind any operation's output, backward passes included."""

    largest = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        for tensor in result if isinstance(result, (tuple, list)) else [result]:
            if isinstance(tensor, Tensor):
                self.largest = max(self.largest, tensor.untyped_storage().nbytes())
        return result


@pytest.mark.parametrize("device", ["cpu", GPU])
@pytest.mark.parametrize("temperature", [0.7, 1.0])
@pytest.mark.parametrize("num_rows", [1, 5, 6, 23])
def test_agrees_with_whole_logits(tiny_chunks, num_rows, temperature, device):
    for dtype, tolerance in ((torch.float64, 1e-12), (torch.float32, 1e-5)):
        case = (tensor.to(device) for tensor in random_case(num_rows, 8, 24, dtype))
        check(head_logprob, *case, temperature, tolerance=tolerance)


def test_gradcheck_through_chunks_and_no_second_derivative(tiny_chunks):
    hidden_NH, weight_VH, targets_N = random_case(12, 5, 24, torch.float64)

    def function(hidden_NH, weight_VH):
        return head_logprob(hidden_NH, weight_VH, targets_N, None, 0.7, vocabulary=22)

    targets_N %= 22
    assert torch.autograd.gradcheck(function, (hidden_NH.requires_grad_(), weight_VH.requires_grad_()))
    logp_N, entropy_N = function(hidden_NH, weight_VH)
    (first_VH,) = torch.autograd.grad((logp_N * entropy_N).sum(), weight_VH, create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        first_VH.sum().backward()


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("            made = False\n", ""),
        ("reversed(ctx.chunks)", "ctx.chunks"),
        ("stats_4N[:, chunk] =", "stats_4N[:] ="),
        ("total_VH.addmm_(d_logits_CV.t(), hidden_CH)", "torch.mm(d_logits_CV.t(), hidden_CH, out=total_VH)"),
        (
            "(None if x_N is None else x_N[chunk] for x_N in per_token)",
            "(*(x_N[chunk] for x_N in per_token[:-1]), None)",
        ),
        ("num_rows * (i + 1) // count", "num_rows * (i + 1) // count - (i + 1 == count)"),
        ("buffer_CV, ctx.last_logits_CV = ctx.last_logits_CV, None", "buffer_CV = ctx.last_logits_CV"),
    ],
)
def test_the_cases_catch_a_wrong_head(tiny_chunks, old, new):
    """Logits of another chunk; a chunk's numbers for all; the last chunk's weight gradient alone; no entropy gradient;
    a last row forgotten; gradients taken for logits in a second backward pass."""
    broken = mutant(head, old, new)
    broken.CHUNK_BYTES = head.CHUNK_BYTES
    with pytest.raises((AssertionError, RuntimeError)):
        check(broken.head_logprob, *random_case(23, 8, 24, torch.float64), 0.7, tolerance=1e-12)


def test_padding_ignored_rows_and_no_rows(tiny_chunks):
    hidden_NH, weight_VH, targets_N = random_case(23, 8, 24, torch.float64)
    weight_VH[20:] = torch.nan
    kept_N = torch.arange(23) % 3 != 0
    targets_N = (targets_N % 20).where(kept_N, torch.tensor(IGNORED))
    hidden_NH.requires_grad_()
    weight_VH.requires_grad_()
    logp_N, entropy_N = head_logprob(hidden_NH, weight_VH, targets_N, None, 0.7, vocabulary=20)
    assert not logp_N[~kept_N].any()
    assert not entropy_N[~kept_N].any()
    (d_weight_VH,) = torch.autograd.grad(logp_N.sum() + entropy_N.sum(), weight_VH)
    log_p_NV = (hidden_NH[kept_N] @ weight_VH[:20].T / 0.7).log_softmax(dim=1)
    expected = log_p_NV.gather(1, targets_N[kept_N, None]).sum() - (log_p_NV.exp() * log_p_NV).sum()
    (expected_VH,) = torch.autograd.grad(expected, weight_VH)
    torch.testing.assert_close(d_weight_VH[:20], expected_VH[:20], rtol=1e-12, atol=1e-13)
    assert not d_weight_VH[20:].any()

    logp_N, _ = head_logprob(hidden_NH[:0], weight_VH, targets_N[:0])
    d_hidden_NH, d_weight_VH = torch.autograd.grad(logp_N.sum(), (hidden_NH, weight_VH))
    assert not d_hidden_NH.any()
    assert not d_weight_VH.any()


def test_only_what_is_asked_for_is_computed(tiny_chunks):
    hidden_NH, weight_VH, targets_N = random_case(12, 8, 24, torch.float64)
    total_VH = torch.ones_like(weight_VH)
    logp_N, _ = head_logprob(hidden_NH.requires_grad_(), weight_VH, targets_N, weight_grad_VH=total_VH)
    logp_N.sum().backward()
    assert hidden_NH.grad is not None
    assert (total_VH == 1).all()
    with torch.no_grad():
        assert not head_logprob(hidden_NH, weight_VH, targets_N)[0].requires_grad


def test_the_weight_gradient_goes_where_the_caller_says(tiny_chunks):
    hidden_NH, weight_VH, targets_N = random_case(12, 8, 24, torch.float64)
    weight_VH.requires_grad_()
    (expected_VH,) = torch.autograd.grad(head_logprob(hidden_NH, weight_VH, targets_N)[0].sum(), weight_VH)
    total_VH = torch.ones_like(expected_VH)
    logp_N, _ = head_logprob(hidden_NH, weight_VH, targets_N, weight_grad_VH=total_VH)
    for times in (1, 2):
        (3 * logp_N).sum().backward(retain_graph=True)
        assert weight_VH.grad is None
        torch.testing.assert_close(total_VH, 1 + 3 * times * expected_VH)


@pytest.mark.parametrize("device", ["cpu", GPU])
def test_a_float32_gradient_of_bfloat16_weights_is_summed_in_float32(monkeypatch, device):
    """Against float64, beside the same sum held in bfloat16: what a chunk adds is lost where the total is large."""
    hidden_NH, weight_VH, targets_N = (tensor.to(device) for tensor in random_case(512, 16, 40, torch.bfloat16))
    monkeypatch.setattr(head, "CHUNK_BYTES", 8 * 40 * 2)
    monkeypatch.setattr(rows, "CHUNK_ELEMENTS", 100)
    weight_VH.requires_grad_()

    def error(d_weight_VH: Tensor) -> float:
        return float((d_weight_VH.double() - expected_VH).norm() / expected_VH.norm())

    wide_NV = (hidden_NH @ weight_VH.detach().T).double().requires_grad_()
    logp_N = wide_NV.log_softmax(dim=1).gather(1, targets_N[:, None]).sum()
    (d_logits_NV,) = torch.autograd.grad(logp_N, wide_NV)
    expected_VH = d_logits_NV.bfloat16().double().T @ hidden_NH.double()

    total_VH = torch.zeros(40, 16, device=device)
    head_logprob(hidden_NH, weight_VH, targets_N, weight_grad_VH=total_VH)[0].sum().backward()
    (returned_VH,) = torch.autograd.grad(head_logprob(hidden_NH, weight_VH, targets_N)[0].sum(), weight_VH)
    summed_in_half_VH = torch.zeros_like(weight_VH)
    for d_logits_CV, hidden_CH in zip(d_logits_NV.bfloat16().split(8), hidden_NH.split(8), strict=True):
        summed_in_half_VH += d_logits_CV.T @ hidden_CH

    assert returned_VH.dtype == torch.bfloat16
    assert error(total_VH) < 1e-3
    assert error(returned_VH) < 2**-8
    assert error(summed_in_half_VH) > 10 * error(total_VH)
    assert error(summed_in_half_VH) > 2 * error(returned_VH)


def test_logits_are_never_whole():
    """2,048 tokens of 49,152 columns: 403 MB of logits in float32; with the weight's gradient in one piece, 13 MB."""
    hidden_NH, weight_VH, targets_N = random_case(2048, 64, 49152, torch.float32)
    hidden_NH.requires_grad_()
    weight_VH.requires_grad_()
    with Outputs() as outputs:
        logp_N, entropy_N = head_logprob(hidden_NH, weight_VH, targets_N)
        (logp_N.sum() + entropy_N.sum()).backward()
    assert 0.9 * CHUNK_BYTES < outputs.largest <= CHUNK_BYTES <= 64e6


def test_bad_input_names_the_argument():
    hidden_NH, weight_VH, targets_N = random_case(4, 8, 24, torch.float32)
    with pytest.raises(ValueError, match=r"got \[4, 8\], \[24, 7\] and \[4\]"):
        head_logprob(hidden_NH, weight_VH[:, 1:], targets_N)
    with pytest.raises(ValueError, match=r"got \[4, 8\], \[24, 8\] and \[3\]"):
        head_logprob(hidden_NH, weight_VH, targets_N[1:])
    with pytest.raises(ValueError, match=r"must be torch.float32 on cpu as the weight is, got torch.bfloat16 on cpu"):
        head_logprob(hidden_NH.bfloat16(), weight_VH, targets_N)
    with pytest.raises(ValueError, match=r"must be torch.float32 on cpu as the weight is, got torch.float32 on meta"):
        head_logprob(hidden_NH.to("meta"), weight_VH, targets_N)
    with pytest.raises(ValueError, match=r"weight_VH must be float16, bfloat16, float32 or float64, got torch.int64"):
        head_logprob(hidden_NH.long(), weight_VH.long(), targets_N)
    with pytest.raises(ValueError, match=r"targets_N must be torch.int64 on cpu, got torch.int32 on cpu"):
        head_logprob(hidden_NH, weight_VH, targets_N.int())
    with pytest.raises(ValueError, match=r"weight_grad_VH must be torch.float32 \[24, 8\], got torch.bfloat16"):
        head_logprob(hidden_NH, weight_VH, targets_N, weight_grad_VH=weight_VH.bfloat16())
    with pytest.raises(ValueError, match=r"targets must be in \[0, 20\) or -100, got 23"):
        head_logprob(hidden_NH, weight_VH, torch.tensor([0, 1, 2, 23]), vocabulary=20)


def test_tensor_parallel_ranks_agree_with_the_whole():
    from tests.launch import launch  # which needs psutil; tools/gpu_check.sh runs this file without

    output = launch(4, Path(__file__).with_name("head_ranks.py"), timeout=60)
    assert output.count("all shards agree") == 4
