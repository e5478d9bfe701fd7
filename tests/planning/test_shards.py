"""Numbers that a rank holds, counted layer by layer and in whole."""

import math

import pytest

from pivotrl.planning.flops import active_parameters, parameters
from pivotrl.planning.shards import Weight, _buffer, layout_at, shard_of, weights_of_rank
from pivotrl.policy.config import ParallelConfig
from pivotrl.policy.mapping import all_tensors, params_of_rank
from tests.planning.sizes import model, run

LAYOUTS = [
    {},
    {"tensor": 4, "expert": 8},
    {"tensor": 2, "pipeline": 4, "expert": 4, "expert_tensor": 2},
    {"pipeline": 4, "virtual_pipeline": 3, "expert": 16},
]


def test_the_published_models_have_the_parameters_in_their_names() -> None:
    sizes = {"Qwen3-30B-A3B": 30.5, "Qwen3-235B-A22B-Thinking-2507": 235.1, "Qwen3-8B": 8.2, "Qwen3-4B": 4.0}
    for name, billions in sizes.items():
        arch = model(name)
        assert parameters(arch) == sum(math.prod(tensor.shape) for tensor in all_tensors(arch).values())
        assert parameters(arch) / 1e9 == pytest.approx(billions, abs=0.05)
    assert active_parameters(model()) / 1e9 == pytest.approx(3.35 - 0.31, abs=0.05)  # 3.3 B with the embedding


@pytest.mark.parametrize("sizes", LAYOUTS)
@pytest.mark.parametrize("name", ["Qwen3-30B-A3B", "Qwen3-4B"])
def test_a_layer_described_once_counts_as_every_layer(sizes: dict, name: str) -> None:
    arch = model(name)
    if not arch.experts:
        sizes = {key: value for key, value in sizes.items() if "expert" not in key}
    parallel = ParallelConfig(**sizes)
    for stage in range(parallel.pipeline):
        layout = layout_at(parallel, stage)
        whole = [
            sum(math.prod(part.shard_shape(layout.etp_size if p.expert else layout.tp_size)) for part in p.parts)
            for p in params_of_rank(arch, layout)
        ]
        assert [weight.numel for chunk in weights_of_rank(arch, layout, False) for weight in chunk] == whole


@pytest.mark.parametrize("sizes", LAYOUTS)
def test_data_parallel_ranks_own_every_trained_number_once(sizes: dict) -> None:
    arch, ranks, frozen = model(), 64, True
    parallel = ParallelConfig(**sizes)
    layout = layout_at(parallel, 0)
    weights = [weight for chunk in weights_of_rank(arch, layout, frozen) for weight in chunk if weight.trained]
    dense = sum(weight.numel for weight in weights if not weight.expert)
    experts = sum(weight.numel for weight in weights if weight.expert)
    dense_ranks = ranks // (layout.tp_size * layout.pp_size)
    expert_ranks = ranks // (layout.etp_size * layout.ep_size * layout.pp_size)
    together = math.lcm(dense_ranks, expert_ranks)
    owned = sum(shard_of(arch, layout, ranks, frozen, True, rank).owned for rank in range(together))
    assert owned == dense * together // dense_ranks + experts * together // expert_ranks
    alone = shard_of(arch, layout, ranks, frozen, False)
    assert (alone.dense, alone.experts, alone.owned) == (dense, experts, dense + experts)
    assert alone.frozen == arch.experts * arch.hidden * 48 // layout.pp_size


def test_the_shipped_layout_as_worked_out_by_hand() -> None:
    """Experts 28.99 B over EP 8, the rest 1.54 B over TP 4 but for norms and routers."""
    shard = shard_of(model(), layout_at(run().parallel, 0), 32, True, True)
    assert shard.experts == pytest.approx(48 * 128 * 3 * 2048 * 768 / 8, rel=1e-6)
    attention, embeddings = 48 * 2048 * 128 * 72, 2 * 151936 * 2048
    assert shard.dense == pytest.approx((attention + embeddings) / 4, rel=1e-3)


def test_a_buffer_is_padded_and_cut_as_megatron_does() -> None:
    """From the last parameter on: starts at multiples of 64, the end at one of 128 and of the ranks."""
    weights = [Weight(numel, expert=False, trained=True, alone=False) for numel in (10, 100, 70)]
    assert _buffer(weights, False, 3, 0) == (180, 180)
    assert [_buffer(weights, True, 3, rank) for rank in range(3)] == [(384, 70), (384, 100), (384, 10)]
    tied = [Weight(10, expert=False, trained=True, alone=True), *weights[1:]]
    assert [_buffer(tied, True, 2, rank) for rank in range(2)] == [(384, 70 + 10), (384, 100)]
