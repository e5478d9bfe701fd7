"""Legend: N tokens, V columns."""

from pathlib import Path

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from pivotrl.objective import rows, vocab
from pivotrl.objective.vocab import IGNORED, vocab_parallel_logprob
from tests.launch import launch
from tests.objective.mutants import mutant
from tests.objective.vocab_cases import check, random_case


@pytest.mark.parametrize("temperature", [0.7, 1.0, 1.4])
@pytest.mark.parametrize("scale", [1.0, 10.0, 100.0])
@pytest.mark.parametrize("columns", [1, 7, 1000, 18992])
def test_agrees_with_log_softmax(columns, scale, temperature):
    rows = 4 if columns == 18992 else 20
    check(vocab_parallel_logprob, *random_case(rows, columns, scale, torch.float32), temperature)
    check(vocab_parallel_logprob, *random_case(rows, columns, scale, torch.float64), temperature, tolerance=1e-12)


def test_bfloat16_logits_are_computed_in_float32():
    logits_NV, targets_N = random_case(20, 1000, 3.0, torch.bfloat16)
    check(vocab_parallel_logprob, logits_NV, targets_N, 0.7)
    assert vocab_parallel_logprob(logits_NV, targets_N)[0].dtype == torch.float32


@pytest.mark.parametrize("offset", [-30000.0, 30000.0])
def test_huge_logits_lose_nothing(offset):
    check(vocab_parallel_logprob, *random_case(20, 100, 5.0, torch.float32, offset), 0.7)
    check(vocab_parallel_logprob, *random_case(20, 100, 10000.0, torch.float32), 1.0)


def test_columns_of_minus_infinity_have_no_probability():
    logits_NV, targets_N = random_case(20, 100, 5.0, torch.float32)
    logits_NV[:, 80:] = -torch.inf
    logits_NV[3, 1:] = -torch.inf
    targets_N = targets_N % 80
    targets_N[3] = 0
    check(vocab_parallel_logprob, logits_NV, targets_N, 0.7)
    leaf_NV = logits_NV.requires_grad_()
    logp_N, entropy_N = vocab_parallel_logprob(leaf_NV, targets_N)
    (logp_N.sum() + entropy_N.sum()).backward()
    assert logp_N[3] == 0
    assert entropy_N[3] == 0
    assert (leaf_NV.grad[:, 80:] == 0).all()


def check_every_case(function) -> None:
    """One process: plain, negative and padded logits."""
    check(function, *random_case(20, 100, 5.0, torch.float32), 0.7)
    check(function, *random_case(20, 100, 5.0, torch.float32, offset=-30000.0), 1.4)
    logits_NV, targets_N = random_case(20, 100, 5.0, torch.float32)
    check(function, logits_NV.index_fill(1, torch.arange(90, 100), -torch.inf), targets_N % 90, 1.0)
    check_padding_and_ignored_rows(function)


def check_padding_and_ignored_rows(function) -> None:
    """Columns beyond the vocabulary and ignored rows hold NaN: the rest is as without them, and they get zeros."""
    logits_NV, targets_N = random_case(20, 100, 5.0, torch.float32)
    targets_N = targets_N % 90
    kept_N = torch.arange(20) % 3 != 0
    spoilt_NV = logits_NV.clone()
    spoilt_NV[:, 90:] = torch.nan
    spoilt_NV[~kept_N] = torch.nan
    for in_place in (False, True):
        leaf_NV = spoilt_NV.clone().requires_grad_()
        copy_NV = leaf_NV * 1.0
        logp_N, entropy_N = function(
            copy_NV, targets_N.where(kept_N, torch.tensor(IGNORED)), None, 0.7, vocabulary=90, in_place=in_place
        )
        assert not logp_N[~kept_N].any()
        assert not entropy_N[~kept_N].any()
        weights_N = torch.linspace(-2, 3, 20)
        (grad_NV,) = torch.autograd.grad((logp_N * weights_N + entropy_N).sum(), copy_NV, retain_graph=True)
        plain_NV = logits_NV[kept_N, :90].double().requires_grad_()
        log_p_NV = (plain_NV / 0.7).log_softmax(dim=1)
        expected_N = log_p_NV.gather(1, targets_N[kept_N, None])[:, 0]
        loss = (expected_N * weights_N[kept_N]).sum() - (log_p_NV.exp() * log_p_NV).sum()
        (expected_NV,) = torch.autograd.grad(loss, plain_NV)
        torch.testing.assert_close(logp_N[kept_N].double(), expected_N, rtol=1e-5, atol=1e-5)
        torch.testing.assert_close(grad_NV[kept_N, :90].double(), expected_NV, rtol=1e-4, atol=1e-5)
        assert not grad_NV[~kept_N].any()
        assert not grad_NV[:, 90:].any()


def test_a_gradient_written_over_the_logits_is_computed_once():
    logits_NV, targets_N = random_case(20, 100, 5.0, torch.float32)
    copy_NV = logits_NV.requires_grad_() * 1.0
    logp_N, _ = vocab_parallel_logprob(copy_NV, targets_N, in_place=True)
    (grad_NV,) = torch.autograd.grad(logp_N.sum(), copy_NV, retain_graph=True)
    assert grad_NV.data_ptr() == copy_NV.data_ptr()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        torch.autograd.grad(logp_N.sum(), copy_NV)


def test_every_case_passes():
    check_every_case(vocab_parallel_logprob)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (
            "d_CV.mul_(log_p_CV.add_(entropy_C[:, None]).mul_(-h_C[:, None]).sub_(g_C[:, None]))",
            "d_CV.mul_(-g_C[:, None])",
        ),
        (".mul_(-h_C[:, None])", ".mul_(h_C[:, None])"),
        ("log_p_CV.add_(entropy_C[:, None])", "log_p_CV"),
        (".sub_(g_C[:, None])", ""),
        ("return d_CV.mul_(1 / temperature)", "return d_CV"),
        (".masked_fill_((targets_C < 0)[:, None], 0.0)", ""),
        ("out_NV[:, num_valid:] = 0", "pass"),
        ("logits_NV = logits_NV[:, :num_valid]", "pass"),
        ("logits_CV.amax(dim=1).to(dtype)", "logits_CV.amax(dim=1).to(dtype).clamp(min=0)"),
        (".clamp_(min=LOG_ZERO)", ""),
    ],
)
def test_the_cases_catch_a_wrong_pass(old, new, monkeypatch):
    """No entropy gradient, its sign, H missing in it; no softmax term, no 1 / T; ignored rows and padding not ignored;
    max from 0; -inf times 0."""
    monkeypatch.setattr(vocab, "rows", mutant(rows, old, new))
    with pytest.raises(AssertionError):
        check_every_case(vocab_parallel_logprob)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("log_sum_N - weighted_N / sum_N", "log_sum_N + weighted_N / sum_N"),
        ("(target_N - maximum_N) / temperature", "(target_N - maximum_N)"),
        ("log_sum_N).masked_fill(ignored_N, 0.0)", "log_sum_N)"),
    ],
)
def test_the_cases_catch_wrong_sums(old, new):
    with pytest.raises(AssertionError):
        check_every_case(mutant(vocab, old, new).vocab_parallel_logprob)


def test_gradcheck_and_no_second_derivative():
    logits_NV, targets_N = random_case(5, 9, 2.0, torch.float64)
    logits_NV.requires_grad_()
    assert torch.autograd.gradcheck(lambda x: vocab_parallel_logprob(x, targets_N, None, 0.7), (logits_NV,))
    logp_N, entropy_N = vocab_parallel_logprob(logits_NV, targets_N)
    (first_NV,) = torch.autograd.grad((logp_N * entropy_N).sum(), logits_NV, create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        first_NV.sum().backward()


def test_each_output_alone_has_its_gradient():
    logits_NV, targets_N = random_case(6, 50, 2.0, torch.float64)
    logits_NV.requires_grad_()
    log_p_NV = logits_NV.log_softmax(dim=1)
    expected = (log_p_NV.gather(1, targets_N[:, None])[:, 0], -(log_p_NV.exp() * log_p_NV).sum(dim=1))
    for actual_N, expected_N in zip(vocab_parallel_logprob(logits_NV, targets_N), expected, strict=True):
        actual_NV, expected_NV = (
            torch.autograd.grad(x_N.sum(), logits_NV, retain_graph=True)[0] for x_N in (actual_N, expected_N)
        )
        torch.testing.assert_close(actual_NV, expected_NV, rtol=1e-12, atol=1e-14)


def test_chunks_strides_and_no_rows(monkeypatch):
    logits_NV, targets_N = random_case(23, 64, 3.0, torch.float64)
    monkeypatch.setattr(rows, "CHUNK_ELEMENTS", 5 * 64)
    check(vocab_parallel_logprob, logits_NV, targets_N, 0.7, tolerance=1e-12)
    check(vocab_parallel_logprob, logits_NV[:, ::2], targets_N // 2, 0.7, tolerance=1e-12)
    empty_NV = torch.empty(0, 64, requires_grad=True)
    logp_N, _ = vocab_parallel_logprob(empty_NV, torch.empty(0, dtype=torch.int64))
    logp_N.sum().backward()
    assert empty_NV.grad.shape == (0, 64)


def test_nothing_as_large_as_the_logits_is_kept():
    logits_NV, targets_N = random_case(64, 500, 3.0, torch.float32)
    logits_NV.requires_grad_()
    kept = []
    with torch.autograd.graph.saved_tensors_hooks(lambda x: kept.append(x) or x, lambda x: x):
        vocab_parallel_logprob(logits_NV, targets_N)
    large = [x for x in kept if x.numel() > 64]
    assert [x.data_ptr() for x in large] == [logits_NV.data_ptr()]


class Allocated(TorchDispatchMode):
    """Adds up the bytes of all memory that operations have made, backward passes included."""

    total = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        given = {x.untyped_storage().data_ptr() for x in tree_leaves((args, kwargs)) if isinstance(x, torch.Tensor)}
        for tensor in tree_leaves(result):
            if isinstance(tensor, torch.Tensor) and tensor.untyped_storage().data_ptr() not in given:
                self.total += tensor.untyped_storage().nbytes()
        return result


def test_two_buffers_serve_all_chunks(monkeypatch):
    """New ones for each chunk leave a heap of holes: half as much memory again as the gradient, and page after page."""
    logits_NV, targets_N = random_case(64, 1000, 3.0, torch.float32)
    monkeypatch.setattr(rows, "CHUNK_ELEMENTS", 4 * 1000)
    leaf_NV = logits_NV.requires_grad_()
    with Allocated() as allocated:
        logp_N, entropy_N = vocab_parallel_logprob(leaf_NV, targets_N)
        (logp_N.sum() + entropy_N.sum()).backward()
    gradient, buffers = logits_NV.nbytes, 2 * 2 * 4 * 1000 * 4
    assert gradient + buffers < allocated.total < 1.1 * (gradient + buffers)


def test_logits_changed_before_backward_are_noticed():
    logits_NV, targets_N = random_case(4, 8, 1.0, torch.float32)
    leaf_NV = logits_NV.requires_grad_() * 1.0
    logp_N, _ = vocab_parallel_logprob(leaf_NV, targets_N)
    leaf_NV.detach().zero_()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        logp_N.sum().backward()


def test_bad_input_names_the_argument():
    logits_NV, targets_N = random_case(4, 8, 1.0, torch.float32)
    with pytest.raises(ValueError, match=r"targets must be in \[0, 8\) or -100, got 8"):
        vocab_parallel_logprob(logits_NV, torch.tensor([0, 8, 1, 2]))
    with pytest.raises(ValueError, match=r"targets must be in \[0, 8\) or -100, got -1"):
        vocab_parallel_logprob(logits_NV, torch.tensor([0, -1, 1, 2]))
    with pytest.raises(ValueError, match=r"vocabulary must be in \[1, 8\], the columns of all shards, got 9"):
        vocab_parallel_logprob(logits_NV, targets_N, vocabulary=9)
    with pytest.raises(ValueError, match=r"got \[4, 8\] and \[3\]"):
        vocab_parallel_logprob(logits_NV, targets_N[:3])
    for temperature in (0.0, float("inf"), float("nan")):
        with pytest.raises(ValueError, match="temperature must be positive and finite, got"):
            vocab_parallel_logprob(logits_NV, targets_N, None, temperature)
    with pytest.raises(ValueError, match=r"logits_NV must be float16, bfloat16, float32 or float64, got torch.int64"):
        vocab_parallel_logprob(logits_NV.long(), targets_N)
    with pytest.raises(ValueError, match=r"targets_N must be torch.int64 on cpu, got torch.int32 on cpu"):
        vocab_parallel_logprob(logits_NV, targets_N.int())
    with pytest.raises(ValueError, match=r"targets_N must be torch.int64 on meta, got torch.int64 on cpu"):
        vocab_parallel_logprob(logits_NV.to("meta"), targets_N)
    with pytest.raises(ValueError, match="one row's gradient would overwrite another's"):
        vocab_parallel_logprob(logits_NV[:1].expand(4, 8), targets_N, in_place=True)


def test_tensor_parallel_ranks_agree_with_the_whole():
    output = launch(4, Path(__file__).with_name("vocab_ranks.py"), timeout=60)
    assert output.count("all shards agree") == 4
