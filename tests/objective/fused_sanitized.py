"""Run by test_fused.py under the sanitizers: every branch of the kernel, on memory that ends where its tensors end."""

import sys

from tests.objective.fused_cases import check_build
from tests.objective.test_loss import CONFIGS

if __name__ == "__main__":
    check_build(sys.argv[1], CONFIGS[::9])
    print("nothing found")
