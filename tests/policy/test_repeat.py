"""Rows that are there several times: their gradient is the sum, in float32 where the rows are narrower."""

import pytest
import torch

from pivotrl.policy.repeat import repeat_rows


@pytest.mark.parametrize(
    ("dtype", "tolerance"), [(torch.float64, 1e-13), (torch.float32, 1e-5), (torch.bfloat16, 1e-2)], ids=str
)
def test_gradient_is_the_sum_of_the_repeats(dtype: torch.dtype, tolerance: float) -> None:
    draw = torch.Generator().manual_seed(0)
    rows = torch.randn(5, 7, generator=draw).to(dtype).requires_grad_()
    place = torch.tensor([3, 0, 3, 3, 1, 4, 0] + [2] * 1000)
    weights = torch.rand(len(place), 7, generator=draw).to(dtype)
    out = repeat_rows(rows, place)
    assert torch.equal(out, rows[place])
    (gradient,) = torch.autograd.grad((out * weights).sum(), rows)
    expected = torch.zeros(5, 7, dtype=torch.float64).index_add_(0, place, weights.double())
    # a sum of a thousand in bfloat16 would be off by several percent
    torch.testing.assert_close(gradient.double(), expected, rtol=tolerance, atol=0)
