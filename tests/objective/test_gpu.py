"""The kernels on a GPU, against float64 on the CPU. Needs torch, triton, pytest, nvcc and g++ only: see
tools/gpu_check.sh.

Legend: N rows, V columns, S samples, T tokens.
"""

import pytest
import torch

from pivotrl.objective import rows
from pivotrl.objective.kernels import library
from pivotrl.objective.kernels.group_loss import SETTINGS, group_loss
from pivotrl.objective.vocab import IGNORED, vocab_parallel_logprob

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU")]
TOLERANCE = {torch.float32: 1e-5, torch.bfloat16: 2**-8}


def case(num_rows: int, columns: int, dtype: torch.dtype, scale: float = 3.0) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator("cuda").manual_seed(columns)
    logits_NV = (scale * torch.randn(num_rows, columns, generator=generator, device="cuda")).to(dtype)
    targets_N = torch.randint(0, columns, (num_rows,), generator=generator, device="cuda")
    return logits_NV, targets_N


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("columns", [1, 7, 1000, 18992, 151936])
@pytest.mark.parametrize("temperature", [0.7, 1.0])
@pytest.mark.parametrize("scale", [1.0, 10.0, 100.0])
def test_the_vocabulary_agrees_with_float64(dtype, columns, temperature, scale):
    logits_NV, targets_N = case(16, columns, dtype, scale)
    targets_N[3] = IGNORED
    g_N, h_N = torch.randn(2, 16, device="cuda")
    exact_NV = logits_NV.double().cpu().requires_grad_()
    leaf_NV = logits_NV.requires_grad_()
    wanted = vocab_parallel_logprob(exact_NV, targets_N.cpu(), None, temperature)
    found = vocab_parallel_logprob(leaf_NV, targets_N, None, temperature)
    for actual_N, expected_N in zip(found, wanted, strict=True):
        error_N = (actual_N.double().cpu() - expected_N).abs()
        assert (error_N <= 1e-5 * expected_N.abs().clamp(min=1)).all(), error_N.max()
    (expected_NV,) = torch.autograd.grad(wanted, exact_NV, (g_N.double().cpu(), h_N.double().cpu()))
    (actual_NV,) = torch.autograd.grad(found, leaf_NV, (g_N, h_N), retain_graph=True)
    off_NV = torch.ones_like(expected_NV).scatter_(1, targets_N.cpu().clamp(min=0)[:, None], 0.0)
    difference_NV = (actual_NV.double().cpu() - expected_NV) * off_NV
    scale_N = (expected_NV * off_NV).norm(dim=1)
    assert (difference_NV.norm(dim=1) <= TOLERANCE[dtype] * scale_N + 1e-30).all()
    assert not actual_NV[3].any()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_in_place_padded_and_strided(dtype):
    wide_NV, targets_N = case(32, 4096, dtype)
    logits_NV, targets_N = wide_NV[:, :3000], targets_N % 2900
    plain = vocab_parallel_logprob(logits_NV[:, :2900].contiguous().requires_grad_(), targets_N)
    leaf_NV = logits_NV.clone(memory_format=torch.contiguous_format).requires_grad_() * 1.0
    found = vocab_parallel_logprob(leaf_NV, targets_N, vocabulary=2900, in_place=True)
    torch.testing.assert_close(found, plain)
    (grad_NV,) = torch.autograd.grad(found[0].sum(), leaf_NV, retain_graph=True)
    assert grad_NV.data_ptr() == leaf_NV.data_ptr()
    assert not grad_NV[:, 2900:].any()
    with pytest.raises(RuntimeError, match="inplace operation"):
        torch.autograd.grad(found[0].sum(), leaf_NV)


@pytest.mark.parametrize("value", [torch.nan, torch.inf])
def test_a_logit_that_is_no_number_is_not_hidden(value):
    logits_NV, targets_N = case(16, 20000, torch.bfloat16)
    logits_NV[5, 19000] = value
    targets_N[5] = 3
    for found_N in vocab_parallel_logprob(logits_NV, targets_N):
        assert found_N.isnan().nonzero().tolist() == [[5]]


def test_rows_beyond_the_reach_of_32_bits():
    """Element 2^31 and later ones: the last row of 16,384 x 151,936, of which all rows are alike."""
    one_NV, target_N = case(1, 151936, torch.bfloat16)
    many_NV = one_NV.expand(16384, -1).contiguous().requires_grad_()
    logp_N, entropy_N = vocab_parallel_logprob(many_NV, target_N.expand(16384), in_place=True)
    assert (logp_N == logp_N[0]).all()
    assert (entropy_N == entropy_N[0]).all()
    expected_4N = rows.shard_stats(one_NV.double().cpu(), target_N.cpu(), 0, 151936, 1.0)
    expected = (expected_4N[3] - expected_4N[0] - expected_4N[1].log())[0]
    torch.testing.assert_close(logp_N[-1].detach().double().cpu(), expected)
    (gradient_NV,) = torch.autograd.grad((logp_N + entropy_N).sum(), many_NV)
    leaf_NV = one_NV.clone().requires_grad_()
    (one_gradient_NV,) = torch.autograd.grad(sum(vocab_parallel_logprob(leaf_NV, target_N)).sum(), leaf_NV)
    assert torch.equal(gradient_NV[0], one_gradient_NV[0])
    assert torch.equal(gradient_NV[-1], one_gradient_NV[0])


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_rows_that_no_16_bytes_divide(dtype):
    wide_NV, targets_N = case(32, 4097, dtype)
    odd_NV, targets_N = wide_NV[:, 1:], targets_N % 4096
    for odd_N, even_N in zip(
        vocab_parallel_logprob(odd_NV, targets_N), vocab_parallel_logprob(odd_NV.contiguous(), targets_N), strict=True
    ):
        torch.testing.assert_close(odd_N, even_N, rtol=1e-6, atol=1e-6)


BASE = {
    "advantage_mode": 1,
    "advantage_epsilon": 1e-6,
    "ratio_of_sequence": 0,
    "cispo": 0,
    "clip_low": 0.2,
    "clip_high": 0.3,
    "dual_clip": 3.0,
    "kl": 3,
    "beta": 0.1,
    "entropy_bonus": 0.01,
    "importance": 1,
    "importance_low": 0.5,
    "importance_high": 2.0,
    "sequence_mean": 0,
    "denominator": 1000.0,
}


@pytest.fixture(scope="session")
def builds(tmp_path_factory) -> tuple[str, str]:
    """The kernel for this GPU's operator, and its source run on the CPU."""
    if not library.is_installed():
        library.build()
        library.is_installed.cache_clear()
    return "", str(library.build_for_cpu(tmp_path_factory.mktemp("csrc") / "cpu.so"))


@pytest.mark.parametrize(
    "changed",
    [
        {},
        {"advantage_mode": 2, "importance": 2, "kl": 1},
        {"advantage_mode": 3, "ratio_of_sequence": 1, "kl": 2},
        {"cispo": 1, "importance": 0, "sequence_mean": 1},
        {"ratio_of_sequence": 1, "sequence_mean": 1, "dual_clip": float("inf")},
    ],
)
def test_the_fused_objective_gives_on_a_gpu_what_its_source_gives_on_a_cpu(builds, changed):
    generator = torch.Generator().manual_seed(0)
    sizes = [1, 2, 16, 16, 130, 1024]
    rewards = torch.randint(0, 2, (sum(sizes),), generator=generator).double()
    lengths = torch.randint(0, 400, (200,), generator=generator)
    offsets = torch.cat([torch.zeros(1, dtype=torch.int64), lengths.cumsum(0)]).int()
    columns = [-2 * torch.rand(int(offsets[-1]), generator=generator) for _ in range(5)]
    columns[2][::97] = torch.nan
    inputs = {
        "logp": columns[0],
        "token_offsets": offsets,
        "rewards": rewards,
        "group_offsets": torch.tensor([0, *sizes]).cumsum(0).int(),
        "reward_index": torch.randint(0, sum(sizes), (200,), generator=generator).int(),
        "old_logp": columns[1],
        "sampler_logp": columns[2],
        "reference_logp": columns[3],
        "entropy": columns[4],
        "mask": torch.rand(len(columns[0]), generator=generator) < 0.9,
    }
    settings = [float((BASE | changed)[name]) for name in SETTINGS]
    on_gpu = {name: value.cuda() for name, value in inputs.items()}
    found = group_loss(settings=settings, library=builds[0], **on_gpu)
    again = group_loss(settings=settings, library=builds[0], **on_gpu)
    wanted = group_loss(settings=settings, library=builds[1], **inputs)
    assert all(torch.equal(first, second) for first, second in zip(found, again, strict=True)), "not deterministic"
    for actual, expected in zip(found, wanted, strict=True):
        assert actual.isfinite().all()
        torch.testing.assert_close(actual.cpu(), expected, rtol=2e-5, atol=1e-7)
