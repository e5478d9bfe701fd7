"""Run on 4 ranks by test_head.py: the weight split over groups of 1, 2 and 4 ranks, against the whole.

Legend: N tokens, H hidden size, W columns in all.
"""

import torch
import torch.distributed as dist

from pivotrl.objective import head
from pivotrl.objective.head import head_logprob
from tests.objective.head_cases import check, random_case


def gathers_of(group: dist.ProcessGroup) -> list[int]:
    """Numbers that each all-gather of one call sends."""
    hidden_NH, weight_WH, targets_N = random_case(40, 8, 64, torch.float32)
    sent = []
    original = dist.all_gather_into_tensor

    def counted(out, mine, **kwargs):
        sent.append(mine.numel())
        return original(out, mine, **kwargs)

    dist.all_gather_into_tensor = counted
    try:
        width = 64 // dist.get_world_size(group)
        place = dist.get_rank(group) * width
        weight_VH = weight_WH[place : place + width].requires_grad_()
        head_logprob(hidden_NH, weight_VH, targets_N, group)[0].sum().backward()
    finally:
        dist.all_gather_into_tensor = original
    return sent


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    head.CHUNK_BYTES = 7 * 16 * 8
    for partition in ([[0], [1], [2], [3]], [[0, 1], [2, 3]], [[0, 1, 2, 3]]):
        made = [dist.new_group(ranks) for ranks in partition]
        group = next(group for group, ranks in zip(made, partition, strict=True) if rank in ranks)
        for dtype, tolerance in ((torch.float32, 1e-5), (torch.float64, 1e-12)):
            hidden_NH, weight_WH, targets_N = random_case(40, 8, 64, dtype)
            targets_N[:8] = torch.tensor([0, 15, 16, 31, 32, 47, 48, 63])
            check(head_logprob, hidden_NH, weight_WH, targets_N, 0.7, group, tolerance)
        assert gathers_of(group) == [4 * 40], "one all-gather of 4 numbers a token"
    print("all shards agree", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
