"""Metrics of the objective, kept as sums with counts so that micro-batches and ranks add up to exact means.

Legend: T response tokens of one micro-batch.
"""

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

MetricSums = dict[str, Tensor]
"""Metric name -> float64 [2]: its sum over tokens, and the number of tokens summed."""


def sum_metrics(values: Mapping[str, Tensor], mask_T: Tensor) -> MetricSums:
    """Sum each detached [T] tensor of `values` over the tokens of `mask_T` (bool)."""
    count = mask_T.sum().double()
    return {
        name: torch.stack([value_T.double().masked_fill(~mask_T, 0.0).sum(), count]) for name, value_T in values.items()
    }


def mean_metrics(micro_batches: Sequence[MetricSums]) -> dict[str, float]:
    """Mean per token over the micro-batches of all ranks: at least one, with the same names. A metric that no token had
    (every sampler log-prob was dropped) is left out."""
    means = {}
    for name in micro_batches[0]:
        total, count = torch.stack([sums[name] for sums in micro_batches]).sum(dim=0).tolist()
        if count:
            means[name] = total / count
    return means
