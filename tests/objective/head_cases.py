"""Checks of `head_logprob` that the one-process tests and the ranks of `head_ranks.py` share.

Legend: N tokens, H hidden size, V columns of one shard, W = V x ranks columns in all.
"""

import torch
import torch.distributed as dist
from torch import Tensor

from tests.objective import vocab_cases


def random_case(rows: int, hidden: int, columns: int, dtype: torch.dtype) -> tuple[Tensor, Tensor, Tensor]:
    """Hidden states, a weight that makes logits of a size of about 3 from them, and targets."""
    generator = torch.Generator().manual_seed(rows * columns)
    hidden_NH = torch.randn(rows, hidden, generator=generator)
    weight_WH = 3 * hidden**-0.5 * torch.randn(columns, hidden, generator=generator)
    return hidden_NH.to(dtype), weight_WH.to(dtype), torch.randint(0, columns, (rows,), generator=generator)


def check(
    function,
    hidden_NH: Tensor,
    weight_WH: Tensor,
    targets_N: Tensor,
    temperature: float,
    group: dist.ProcessGroup | None = None,
    tolerance: float = 1e-5,
) -> None:
    """Compare outputs and both gradients with float64 logits through log_softmax, then a second backward pass too."""
    rank, ranks = (0, 1) if group is None else (dist.get_rank(group), dist.get_world_size(group))
    width = len(weight_WH) // ranks
    generator = torch.Generator().manual_seed(7)
    g_N, h_N = torch.randn(2, len(targets_N), generator=generator, dtype=torch.float64).to(hidden_NH.device)
    wide_NH, wide_WH = hidden_NH.detach().double(), weight_WH.detach().double()
    expected_logp_N, expected_entropy_N, d_NW = vocab_cases.reference(
        wide_NH @ wide_WH.T, targets_N, temperature, g_N, h_N
    )
    expected = (d_NW @ wide_WH, d_NW[:, rank * width : (rank + 1) * width].T @ wide_NH)

    hidden_NH = hidden_NH.detach().requires_grad_()
    weight_VH = weight_WH[rank * width : (rank + 1) * width].detach().requires_grad_()
    outputs = function(hidden_NH, weight_VH, targets_N, group, temperature)
    assert (outputs[0] - expected_logp_N).abs().max() <= tolerance * expected_logp_N.abs().max().clamp(min=1)
    assert (outputs[1] - expected_entropy_N).abs().max() <= tolerance * 10
    grads = (g_N.to(outputs[0].dtype), h_N.to(outputs[0].dtype))
    for again in (True, False):
        d_hidden_NH, d_weight_VH = torch.autograd.grad(outputs, (hidden_NH, weight_VH), grads, retain_graph=again)
        if group is not None:
            dist.all_reduce(d_hidden_NH, group=group)
        for actual, wanted in zip((d_hidden_NH, d_weight_VH), expected, strict=True):
            assert actual.dtype == hidden_NH.dtype
            assert actual.is_contiguous()
            error = float((actual.double() - wanted).norm() / wanted.norm())
            assert error <= tolerance, f"the gradient is off by {error:.1e}"
