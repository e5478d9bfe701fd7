"""Run on 4 ranks by test_vocab.py: shards over groups of 1, 2 and 4 ranks, against the whole vocabulary.

Legend: N tokens, W columns in all.
"""

import torch
import torch.distributed as dist

from pivotrl.objective import vocab
from tests.objective.mutants import mutant
from tests.objective.vocab_cases import check, random_case

# Wrong shard offset; one rank's log-sum taken for all; U not shifted to the common maximum.
MUTANTS = [
    ("else dist.get_rank(tp_group))", "else dist.get_rank(tp_group) + 1)"),
    ("(scale_RN * sum_RN).sum(dim=0)", "sum_RN[0]"),
    ("weighted_RN + sum_RN * shift_RN", "weighted_RN"),
]


def check_group(function, group: dist.ProcessGroup) -> None:
    for dtype, tolerance in ((torch.float32, 1e-5), (torch.float64, 1e-12)):
        for temperature, offset in ((0.7, 0.0), (1.0, -30000.0 if dtype == torch.float64 else -300.0)):
            logits_NW, targets_N = random_case(40, 64, 5.0, dtype, offset)
            targets_N[:8] = torch.tensor([0, 15, 16, 31, 32, 47, 48, 63])
            check(function, logits_NW, targets_N, temperature, group, tolerance)
            # The last rank of 4 holds nothing but padding.
            logits_NW[:, 48:] = -torch.inf
            check(function, logits_NW, targets_N % 48, temperature, group, tolerance)


def check_outputs_equal_on_all_ranks(group: dist.ProcessGroup) -> None:
    ranks = dist.get_world_size(group)
    logits_NW, targets_N = random_case(40, 64, 5.0, torch.float32)
    width = 64 // ranks
    columns = slice(dist.get_rank(group) * width, (dist.get_rank(group) + 1) * width)
    outputs_2N = torch.stack(vocab.vocab_parallel_logprob(logits_NW[:, columns], targets_N, group))
    gathered = [torch.empty_like(outputs_2N) for _ in range(ranks)]
    dist.all_gather(gathered, outputs_2N, group=group)
    assert all(torch.equal(outputs_2N, other_2N) for other_2N in gathered)


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    partitions = [[[0], [1], [2], [3]], [[0, 1], [2, 3]], [[0, 1, 2, 3]]]
    groups = []
    for partition in partitions:
        made = [dist.new_group(ranks) for ranks in partition]
        groups.append(next(group for group, ranks in zip(made, partition, strict=True) if rank in ranks))
    for group in groups:
        check_group(vocab.vocab_parallel_logprob, group)
        check_outputs_equal_on_all_ranks(group)
    for old, new in MUTANTS:
        caught = 0
        try:
            logits_NW, targets_N = random_case(40, 64, 5.0, torch.float64)
            check(mutant(vocab, old, new).vocab_parallel_logprob, logits_NW, targets_N, 0.7, groups[2], 1e-12)
        except AssertionError:
            caught = 1
        assert caught, f"rank {rank} did not notice {new!r}"
    print("all shards agree", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
