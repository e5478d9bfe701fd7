"""What only a GPU can tell of training a prompt once. Needs torch and pytest alone, see tools/gpu_check.sh."""

import pytest
import torch

from pivotrl.policy.repeat import repeat_rows
from pivotrl.policy.tree_attention import Layout, attend, attend_by_definition
from tests.policy.tree_cases import SCALE, inputs, largest_error, trees_of, values_and_gradients

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU")]


@pytest.mark.parametrize(("heads", "kv_heads", "size"), [(8, 2, 64), (4, 4, 128), (32, 4, 128)])
def test_on_a_gpu_it_equals_the_definition(heads: int, kv_heads: int, size: int) -> None:
    trees = trees_of([(300, (70, 70, 0, 129, 12)), (9, (6,)), (1, (3, 4, 4)), (128, (64,) * 16), (7, ())])
    qkv = inputs(trees, heads, kv_heads, size, torch.bfloat16, "cuda")
    layout = Layout(trees, torch.device("cuda"))
    found = values_and_gradients(lambda *x: attend(*x, layout, SCALE), qkv)
    expected = values_and_gradients(lambda *x: attend_by_definition(*x, trees, SCALE), [x.double() for x in qkv])
    assert largest_error(found, expected) < 1e-2


def test_on_a_gpu_float32_is_refused_with_a_remedy() -> None:
    trees = trees_of([(3, (2, 2))])
    qkv = inputs(trees, 2, 1, 64, torch.float32, "cuda")
    with pytest.raises(ValueError, match=r"model\.dtype: bfloat16, or training\.packing: plain"):
        attend(*qkv, Layout(trees, torch.device("cuda")), SCALE)


def test_on_a_gpu_repeated_rows_have_the_same_gradient_in_every_run() -> None:
    draw = torch.Generator().manual_seed(0)
    rows = torch.randn(300, 512, generator=draw).cuda().bfloat16().requires_grad_()
    place = torch.randint(300, (9000,), generator=draw).cuda()
    weights = torch.randn(9000, 512, generator=draw).cuda().bfloat16()
    first, *others = (torch.autograd.grad((repeat_rows(rows, place) * weights).sum(), rows)[0] for _ in range(5))
    assert all(torch.equal(first, other) for other in others)
    expected = torch.zeros(300, 512, dtype=torch.float64).index_add_(0, place.cpu(), weights.cpu().double())
    assert (first.cpu() - expected).norm() < 5e-3 * expected.norm()
