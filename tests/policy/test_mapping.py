"""The map between Megatron parameters and Hugging Face tensors, without either."""

from dataclasses import replace
from itertools import product

import pytest
import torch

from pivotrl.policy.export import dense_slots, expert_slots, make_buckets
from pivotrl.policy.mapping import Layout, all_tensors, join, params_of_rank, split
from tests.policy.test_parallel import DENSE, MOE

SMALL = replace(MOE, layers=4, hidden=16, heads=8, kv_heads=4, head_dim=2, ffn=24, vocab=40, experts=4, expert_ffn=12)
SMALL_DENSE = replace(SMALL, name=DENSE.name, experts=0, attention_bias=True, output_bias=True, tied=True)
SMALL_MIXTRAL = replace(SMALL, name="MixtralForCausalLM", vocab=37, qk_norm=False)


def layouts(arch) -> list[list[Layout]]:
    """For some parallel sizes, the coordinates of every rank that holds something of its own."""
    sizes = [(1, 1, 1, 1), (2, 2, 2, 1), (2, 1, 2, 2), (4, 2, 4, 2)] if arch.experts else [(1, 1, 1, 1), (4, 2, 1, 1)]
    return [
        [Layout(t, tp, p, pp, e, ep, et, etp) for t, p, e, et in product(range(tp), range(pp), range(ep), range(etp))]
        for tp, pp, ep, etp in sizes
    ]


@pytest.mark.parametrize("arch", [SMALL, SMALL_DENSE, SMALL_MIXTRAL], ids=lambda arch: arch.name)
def test_every_element_lives_on_the_ranks_it_should(arch) -> None:
    """Counting each shard once for each set of ranks that holds the same one, the whole model comes out."""
    tensors = all_tensors(arch)
    for ranks in layouts(arch):
        held: dict[str, set] = {}
        for layout in ranks:
            for param in params_of_rank(arch, layout):
                rank, size = (layout.etp_rank, layout.etp_size) if param.expert else (layout.tp_rank, layout.tp_size)
                for part in param.parts:
                    assert part == tensors[part.name]
                    held.setdefault(part.name, set()).add((rank, size) if part.dim is not None else (0, 1))
        assert held.keys() == tensors.keys()
        for name, shards in held.items():
            (size,) = {size for _, size in shards}
            assert {rank for rank, _ in shards} == set(range(size)), name


@pytest.mark.parametrize("arch", [SMALL, SMALL_DENSE, SMALL_MIXTRAL], ids=lambda arch: arch.name)
def test_split_undoes_join(arch) -> None:
    generator = torch.Generator().manual_seed(0)
    for ranks in layouts(arch):
        for param in params_of_rank(arch, ranks[-1]):
            size = ranks[-1].etp_size if param.expert else ranks[-1].tp_size
            shards = [torch.randn(part.shard_shape(size), generator=generator) for part in param.parts]
            parts = split(param, join(param, shards, arch), arch)
            assert len(parts) == len(shards)
            for shard, part in zip(shards, parts):
                assert torch.equal(part.reshape(shard.shape), shard), param


def test_qkv_interleaves_by_key_value_head() -> None:
    """Megatron's rows for each key-value head: its query heads, then its key, then its value."""
    (param,) = (p for p in params_of_rank(SMALL, Layout()) if p.join == "qkv" and ".layers.0." in p.names[0])
    d, per_kv = SMALL.head_dim, SMALL.heads // SMALL.kv_heads
    shards = [torch.arange(n * d).float()[:, None] + base for n, base in ((8, 0), (4, 100), (4, 200))]
    joined = join(param, shards, SMALL).flatten().tolist()
    expected = []
    for head in range(SMALL.kv_heads):
        expected += [float(row) for row in range(head * per_kv * d, (head + 1) * per_kv * d)]
        expected += [float(base + head * d + row) for base in (100, 200) for row in range(d)]
    assert joined == expected


def test_buckets_respect_their_bound_and_keep_every_slot_in_order() -> None:
    stages = [
        dense_slots(SMALL, Layout(tp_size=2, pp_rank=stage, pp_size=2))
        + expert_slots(SMALL, Layout(ep_size=2, pp_rank=stage, pp_size=2))
        for stage in range(2)
    ]
    for bound in (1, 300, 10**6):
        buckets = make_buckets(stages, bound)
        for stage, slots in enumerate(stages):
            assert [slot for bucket in buckets for slot in bucket.stages[stage]] == slots
        for bucket in buckets:
            for slots in bucket.stages:
                assert sum(slot.numel for slot in slots) <= bound or len(slots) == 1
    assert len(make_buckets(stages, 10**6)) == 1
