"""Metrics of the objective, kept as sums with counts so that micro-batches and ranks add up to exact means.

Legend: T response tokens of one micro-batch.
"""

from collections.abc import Mapping, Sequence

import torch
import torch.distributed as dist
from torch import Tensor

MetricSums = dict[str, Tensor]
"""Metric name -> float64 [2]: its sum over tokens, and the number of tokens summed."""


def sum_metrics(values: Mapping[str, Tensor], mask_T: Tensor) -> MetricSums:
    """Sum each [T] tensor of `values` over the tokens of `mask_T` (bool)."""
    count = mask_T.sum().double()
    return {name: torch.stack([value_T.detach().double()[mask_T].sum(), count]) for name, value_T in values.items()}


def mean_metrics(micro_batches: Sequence[MetricSums], group: dist.ProcessGroup | None = None) -> dict[str, float]:
    """Mean per token over all micro-batches, and over the ranks of `group` (the data-parallel one) by one all-reduce.

    Every rank must pass the same names, at least one micro-batch, and at least one token in all.
    """
    names = list(micro_batches[0])
    sums = torch.stack([torch.stack([sums[name] for name in names]) for sums in micro_batches]).sum(dim=0)
    if group is not None:
        dist.all_reduce(sums, group=group)
    return {name: total / count for name, (total, count) in zip(names, sums.tolist(), strict=True)}
