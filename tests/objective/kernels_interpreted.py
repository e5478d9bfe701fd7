"""Run by test_kernels.py with TRITON_INTERPRET=1: the kernels against `objective.rows` in float64.

Outputs are poisoned with NaN, so that an entry that is not written is seen. Legend: N rows, V columns.
"""

import inspect
import itertools
import linecache
import sys

import numpy
import torch
from torch import Tensor

from pivotrl.objective import rows
from pivotrl.objective.kernels import dlogits, launch, stats
from pivotrl.objective.vocab import IGNORED

# (columns, valid columns, first column, row stride)
SHAPES = [
    (1, 1, 0, 1),
    (7, 7, 0, 9),
    (1000, 1000, 500, 1000),
    (1000, 900, 0, 1100),
    (520, 0, 520, 520),
    (6000, 6000, 0, 6000),
]


def case(shape: tuple[int, int, int, int], scale: float, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    columns, valid, first, stride = shape
    generator = torch.Generator().manual_seed(columns)
    logits_NV = (scale * torch.randn(6, stride, generator=generator, dtype=torch.float64)).to(dtype)[:, :columns]
    logits_NV[:, valid:] = torch.nan  # padding is never read
    if valid > 10:
        logits_NV[1, 3:9] = -torch.inf
        logits_NV[2, 1:valid] = -torch.inf
    targets_N = torch.randint(0, 3 * columns, (6,), generator=generator)
    targets_N[:2] = torch.tensor([first, first + max(valid - 1, 0)])
    targets_N[2] = 0 if first == 0 else first
    targets_N[3] = IGNORED
    logits_NV[3] = torch.nan
    return logits_NV, targets_N


def check(shape: tuple[int, int, int, int], scale: float, temperature: float, dtype: torch.dtype) -> None:
    logits_NV, targets_N = case(shape, scale, dtype)
    _, valid, first, _ = shape
    kept_N = targets_N >= 0
    placement = (first, valid, temperature)
    expected_4N = rows.shard_stats(logits_NV.double(), targets_N, *placement)[:, kept_N]
    actual_4N = stats.shard_stats(logits_NV, targets_N, *placement)[:, kept_N].double()
    close(actual_4N[0], expected_4N[0], 0.0, "maximum")
    for name, index in (("sum", 1), ("weighted", 2), ("target", 3)):
        close(actual_4N[index], expected_4N[index], 1e-5, name)

    # What the ranks would agree on, as if another shard had as much again.
    maximum_N, sum_N, weighted_N, _ = rows.shard_stats(logits_NV.double(), targets_N, *placement)
    maximum_N = maximum_N.masked_fill(maximum_N == -torch.inf, 0.0)
    log_sum_N = (2 * sum_N.clamp(min=0.5)).log()
    entropy_N = log_sum_N - weighted_N / sum_N.clamp(min=0.5)
    generator = torch.Generator().manual_seed(1)
    g_N, h_N = torch.randn(2, 6, 2, generator=generator, dtype=torch.float64)[..., 0]  # strided, as a gradient may be
    merged = [maximum_N, log_sum_N, entropy_N]
    for with_entropy in (h_N, None):
        expected_NV = torch.full_like(logits_NV, torch.nan, dtype=torch.float64)
        wide_NV = torch.full((len(logits_NV), logits_NV.shape[1] + 3), torch.nan, dtype=dtype)
        actual_NV = wide_NV[:, :-3]
        rows.write_d_logits(logits_NV.double(), expected_NV, targets_N, *merged, g_N, with_entropy, *placement)
        floats = [None if value is None else value.float() for value in (*merged, g_N, with_entropy)]
        dlogits.write_d_logits(logits_NV, actual_NV, targets_N, *floats, *placement)
        check_gradient(actual_NV, expected_NV, targets_N - first, dtype)
        assert wide_NV[:, -3:].isnan().all(), "written beyond the last column"
        in_place_NV = logits_NV.clone()
        dlogits.write_d_logits(in_place_NV, in_place_NV, targets_N, *floats, *placement)
        assert torch.equal(in_place_NV, actual_NV), "in place"


def check_gradient(actual_NV: Tensor, expected_NV: Tensor, columns_N: Tensor, dtype: torch.dtype) -> None:
    """Each row's target outweighs all its other entries, so those are compared alone. The interpreter truncates where
    it stores bfloat16."""
    tolerance = 2**-7 if dtype == torch.bfloat16 else 1e-5
    assert not actual_NV.isnan().any(), "an entry was not written"
    off_NV = torch.ones_like(expected_NV)
    for row, column in enumerate(columns_N.tolist()):
        if 0 <= column < off_NV.shape[1]:
            off_NV[row, column] = 0
    error_N = ((actual_NV.double() - expected_NV) * off_NV).norm(dim=1)
    scale_N = (expected_NV * off_NV).norm(dim=1)
    assert (error_N <= tolerance * scale_N + 1e-30).all(), f"off target: {error_N / scale_N}"
    assert ((actual_NV.double() - expected_NV).abs() <= tolerance * (1e-30 + expected_NV.abs()) + 1e-6).all()


def check_not_finite(dtype: torch.dtype) -> None:
    """A NaN or +inf, in any block, ends in its row's sum, where log-prob and entropy get it from; as in torch."""
    for column, value in itertools.product((0, 4100, 5999), (torch.nan, torch.inf)):
        logits_NV, targets_N = case(SHAPES[-1], 1.0, dtype)
        logits_NV[4, column] = value
        sum_N = stats.shard_stats(logits_NV, targets_N, 0, 6000, 1.0)[1]
        assert sum_N[4].isnan(), f"{value} in column {column} is lost"
        assert sum_N[[0, 1, 2, 5]].isfinite().all()


def check_far_rows() -> None:
    """Rows 2^30 elements apart: the third begins where 32 bits end. Of the 4 GiB only their own pages are touched."""
    memory = torch.from_numpy(numpy.zeros(2**31 + 520, dtype=numpy.int16)).view(torch.bfloat16)
    far_NV = memory.as_strided((3, 520), (2**30, 1))
    near_NV = torch.randn(3, 520, generator=torch.Generator().manual_seed(0)).bfloat16()
    far_NV.copy_(near_NV)
    targets_N, ones_N = torch.tensor([0, 100, 519]), torch.ones(3)
    placement = (0, 520, 1.0)
    assert torch.equal(
        stats.shard_stats(far_NV, targets_N, *placement), stats.shard_stats(near_NV, targets_N, *placement)
    )
    for logits_NV in (near_NV, far_NV):
        dlogits.write_d_logits(logits_NV, logits_NV, targets_N, *[ones_N] * 5, *placement)
    assert torch.equal(far_NV, near_NV)


def close(actual_N: Tensor, expected_N: Tensor, tolerance: float, name: str) -> None:
    same_N = (actual_N == expected_N) | ((actual_N - expected_N).abs() <= tolerance * expected_N.abs().clamp(min=1))
    assert same_N.all(), f"{name}: {actual_N} for {expected_N}"


def check_all(dtype: torch.dtype) -> None:
    for shape, scale, temperature in itertools.product(SHAPES, (1.0, 10.0, 100.0), (0.7, 1.0, 1.4)):
        check(shape, scale, temperature, dtype)
    check_not_finite(dtype)


# Each wrong kernel, and the checks above must notice: no softmax term; its temperature; entropy's sign and H missing in
# it; maximum from 0; the tail and the padding not masked; wrong offset; -inf times 0; NaN taken for -inf. (int32 rows
# need a GPU's memory.)
MUTANTS = [
    (dlogits, "1.0, 0.0) - p)", "1.0, 0.0))"),
    (dlogits, "g = tl.load(g_ptr + row) * inverse_temperature", "g = tl.load(g_ptr + row)"),
    (dlogits, "h = tl.load(h_ptr + row) * inverse_temperature", "h = tl.load(h_ptr + row)"),
    (dlogits, "gradient -= h * p", "gradient += h * p"),
    (dlogits, "(log_p + entropy)", "log_p"),
    (dlogits, "- log_sum", ""),
    (dlogits, "columns == target - first_column", "columns == target"),
    (dlogits, "tl.where(target >= 0, num_valid, 0)", "num_valid"),
    (dlogits, "tl.where(target >= 0, num_valid, 0)", "num_columns"),
    (dlogits, "gradient = tl.where(valid, gradient, 0.0)", "pass"),
    (dlogits, "out_ptr += row * out_stride", "out_ptr += row * num_columns"),
    (stats, 'maximum = -float("inf")', "maximum = 0.0"),
    (stats, "mask=columns < num_valid, other", "mask=columns >= 0, other"),
    (stats, "column = target - first_column", "column = target"),
    (stats, "(weighted + total * shift)", "weighted"),
    (stats, "total = scale * total", "total = total"),
    (stats, "log2_scale, LOG2_ZERO, propagate", "log2_scale, -float('inf'), propagate"),
    (stats, ", propagate_nan=tl.PropagateNan.ALL", ""),
    (stats, "weighted * LN_2", "weighted"),
    (stats, "logits_ptr += row * row_stride", "logits_ptr += row * num_valid"),
]


def check_mutants() -> None:
    for module, old, new in MUTANTS:
        source = inspect.getsource(module)
        if source.count(old) != 1:
            raise LookupError(f"{module.__name__} has {source.count(old)} times {old!r}: bring the mutation up to date")
        name = f"<{module.__name__} with {new!r}>"
        wrong = source.replace(old, new)
        linecache.cache[name] = (len(wrong), None, wrong.splitlines(keepends=True), name)  # triton.jit reads the source
        copy = type(module)(module.__name__)
        exec(compile(wrong, name, "exec"), copy.__dict__)
        public = "shard_stats" if module is stats else "write_d_logits"
        right = getattr(module, public)
        setattr(module, public, getattr(copy, public))
        try:
            check_all(torch.float32)
        except AssertionError:
            continue
        finally:
            setattr(module, public, right)
        raise SystemExit(f"nobody noticed {new!r} in place of {old!r}")


def main(part: str) -> None:
    torch.use_deterministic_algorithms(True, warn_only=True)  # new memory holds NaN
    launch.BYTES_IN_FLIGHT = 4096  # several blocks a row at small sizes, and a last one that is not full
    if part == "mutants":
        check_mutants()
    else:
        check_all(torch.float32 if part == "fp32" else torch.bfloat16)
        if part == "bf16":
            check_far_rows()
    print(f"{part}: all agree")


if __name__ == "__main__":
    main(sys.argv[1])
