"""Run by test_fused.py under the sanitizers: every branch of the kernel, on memory that ends where its tensors end."""

import sys

import torch

from tests.objective.fused_cases import check_build
from tests.objective.test_loss import CONFIGS

if __name__ == "__main__":
    torch.use_deterministic_algorithms(True, warn_only=True)  # new memory holds NaN
    check_build(sys.argv[1], CONFIGS[::9])
    print("nothing found")
