"""Rows of trees with random queries, keys and values, and how far two computations on them differ."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from pivotrl.policy.tree_attention import Tree

SCALE = 0.3
"""Of the scores."""


def trees_of(shapes: Sequence[tuple[int, tuple[int, ...]]]) -> list[Tree]:
    trees, start = [], 0
    for prompt, responses in shapes:
        trees.append(Tree(start, prompt, responses))
        start = trees[-1].end
    return trees


def inputs(trees: list[Tree], heads: int, kv_heads: int, size: int, dtype: torch.dtype, device="cpu") -> list[Tensor]:
    draw = torch.Generator().manual_seed(0)
    rows = trees[-1].end
    return [torch.randn(rows, n, size, generator=draw).to(device, dtype) for n in (heads, kv_heads, kv_heads)]


def values_and_gradients(function: Callable[..., Tensor], qkv: list[Tensor]) -> list[Tensor]:
    """out, d query, d key, d value of a weighted sum."""
    leaves = [x.clone().requires_grad_() for x in qkv]
    out = function(*leaves)
    weights = torch.randn(out.shape, generator=torch.Generator().manual_seed(1)).to(out.device, out.dtype)
    return [out.detach(), *torch.autograd.grad((out * weights).sum(), leaves)]


def largest_error(found: list[Tensor], expected: list[Tensor]) -> float:
    """Relative, of any of the four."""
    return max(((a - b).norm() / b.norm().clamp_min(1e-30)).item() for a, b in zip(found, expected, strict=True))
