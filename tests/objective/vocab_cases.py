"""Checks of `vocab_parallel_logprob` that the one-process tests and the ranks of `vocab_ranks.py` share.

Legend: N tokens, V columns of one shard, W = V x ranks columns in all.
"""

import torch
import torch.distributed as dist
from torch import Tensor


def reference(
    logits_NW: Tensor, targets_N: Tensor, temperature: float, g_N: Tensor, h_N: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Log-probs, entropies and the gradient of sum(g logp + h H), by autograd through log_softmax in float64."""
    leaf_NW = logits_NW.detach().double().requires_grad_()
    log_p_NW = (leaf_NW / temperature).log_softmax(dim=1)
    logp_N = log_p_NW.gather(1, targets_N[:, None])[:, 0]
    finite_NW = log_p_NW.masked_fill(log_p_NW == -torch.inf, 0.0)
    entropy_N = -(log_p_NW.exp() * finite_NW).sum(dim=1)
    (g_N.double() * logp_N + h_N.double() * entropy_N).sum().backward()
    return logp_N.detach(), entropy_N.detach(), leaf_NW.grad


def check(
    function, logits_NW: Tensor, targets_N: Tensor, temperature: float, group=None, tolerance: float = 1e-5
) -> None:
    """Compare this rank's outputs and gradient with the reference, in ways that a small error cannot hide from.

    A row's entry at the target outweighs all its others, so those are compared alone; and each row must sum to zero.
    """
    rank, ranks = (0, 1) if group is None else (dist.get_rank(group), dist.get_world_size(group))
    width = logits_NW.shape[1] // ranks
    columns = slice(rank * width, (rank + 1) * width)
    generator = torch.Generator().manual_seed(7)
    g_N, h_N = torch.randn(2, len(targets_N), generator=generator, dtype=torch.float64)
    expected_logp_N, expected_entropy_N, expected_d_NW = reference(logits_NW, targets_N, temperature, g_N, h_N)

    logits_NV = logits_NW[:, columns].detach().requires_grad_()
    logp_N, entropy_N = function(logits_NV, targets_N, group, temperature)
    (d_NV,) = torch.autograd.grad((logp_N, entropy_N), logits_NV, (g_N.to(logp_N.dtype), h_N.to(logp_N.dtype)))
    d_NW = d_NV.double()
    if group is not None:
        shards = [torch.empty_like(d_NW) for _ in range(ranks)]
        dist.all_gather(shards, d_NW.contiguous(), group=group)
        d_NW = torch.cat(shards, dim=1)

    assert d_NV.dtype == logits_NV.dtype
    assert ((logp_N - expected_logp_N).abs() <= tolerance * expected_logp_N.abs().clamp(min=1)).all()
    assert ((entropy_N - expected_entropy_N).abs() <= tolerance).all()
    assert (entropy_N >= 0).all()
    rounding = torch.finfo(logits_NW.dtype).eps if logits_NW.dtype == torch.bfloat16 else tolerance
    off_target_NW = torch.ones_like(d_NW).scatter_(1, targets_N[:, None], 0.0)
    error_N = ((d_NW - expected_d_NW) * off_target_NW).norm(dim=1)
    scale_N = (expected_d_NW * off_target_NW).norm(dim=1)
    assert (error_N <= rounding * scale_N + 1e-30).all(), (
        f"off-target gradient is off by {(error_N / scale_N).max():.1e}"
    )
    assert ((d_NW - expected_d_NW).abs() <= rounding * (1 + expected_d_NW.abs())).all()
    assert (d_NW.sum(dim=1).abs() <= rounding * d_NW.abs().sum(dim=1).clamp(min=1)).all()


def random_case(
    rows: int, columns: int, scale: float, dtype: torch.dtype, offset: float = 0.0
) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(rows * columns)
    logits = scale * torch.randn(rows, columns, generator=generator, dtype=torch.float64) + offset
    return logits.to(dtype), torch.randint(0, columns, (rows,), generator=generator)
