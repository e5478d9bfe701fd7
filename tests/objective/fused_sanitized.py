"""Run by test_fused.py under the sanitizers: every branch of the kernel, on memory that ends where its tensors end."""

import sys

import torch

from pivotrl.objective import fused, loss
from tests.objective.test_fused import grouped, single
from tests.objective.test_loss import CONFIGS, make_batch


def main(library: str) -> None:
    batch = single(make_batch())
    samples = len(batch.advantages_S)
    rewards = grouped([1, 2, 16, 200], [float(i % 3) for i in range(219)], [(7 * i) % 219 for i in range(samples)])
    for config in CONFIGS[::9]:
        expected = loss.policy_loss(config, batch, 60.0)
        actual = fused.policy_loss(config, batch, 60.0, library=library)
        torch.testing.assert_close(actual.g_T, expected.g_T, rtol=1e-4, atol=1e-6)
        fused.policy_loss(config, batch, 60.0, rewards, library=library)
    print("nothing found")


if __name__ == "__main__":
    main(sys.argv[1])
