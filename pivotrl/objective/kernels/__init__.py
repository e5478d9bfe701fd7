"""Triton kernels over the vocabulary. They hold no formula of the loss: see `objective.vocab` for what they compute.

Legend: N rows (tokens), V columns of this rank's shard.
"""

from torch import Tensor


def runs_on(logits_NV: Tensor) -> bool:
    """Whether the kernels are written for these logits: on a CUDA device, and of a precision below float64."""
    return logits_NV.is_cuda and logits_NV.element_size() <= 4
