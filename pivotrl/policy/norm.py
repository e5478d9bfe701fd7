"""RMSNorm for the CPU specification."""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor


class RmsNorm(torch.nn.Module):
    """torch's RMSNorm with the mark that sequence parallelism needs; Megatron's torch norm refuses it."""

    def __init__(self, config: Any, hidden_size: int, eps: float = 1e-6, **_: Any) -> None:
        super().__init__()
        self.eps = eps
        self.weight = torch.nn.Parameter(torch.ones(hidden_size, dtype=config.params_dtype))
        # Each rank sees its own tokens only, so Megatron must sum this gradient over the tensor group.
        self.weight.sequence_parallel = config.sequence_parallel

    def forward(self, x: Tensor) -> Tensor:
        return F.rms_norm(x, (x.shape[-1],), self.weight, self.eps)
