"""The plan of a refit: every byte that an engine needs comes once, from an owner, in rounds that both ends agree on."""

import math
from collections import defaultdict
from types import SimpleNamespace

import pytest
import torch

from pivotrl.planning.models import architecture_of
from pivotrl.planning.refit_traffic import traffic_of, transfers_of
from pivotrl.policy.config import ParallelConfig
from pivotrl.policy.shards import blocks_of_rank, layouts_of_ranks, tensor_shapes
from pivotrl.rollout.needs import EngineLayout, needs_of_rank
from pivotrl.rollout.plan import RefitError
from pivotrl.rollout.transfers import cut, make_rounds, make_transfers, overlap, volume

ARCH, _ = architecture_of("Qwen3-30B-A3B-Thinking-2507")
TRAINER = ParallelConfig(tensor=4, expert=8)
RANKS, PER_NODE = 32, 8
BYTES = 61_064_245_248
"""Of the published files: model.safetensors.index.json's total_size."""
pytestmark = pytest.mark.slow
ENGINES = [EngineLayout(1), EngineLayout(2), EngineLayout(4), EngineLayout(8), EngineLayout(8, expert_parallel=True)]


@pytest.mark.parametrize("engine", ENGINES, ids=str)
def test_30b_every_byte_of_every_engine_comes_once(engine: EngineLayout) -> None:
    plan = transfers_of(ARCH, TRAINER, engine, RANKS, PER_NODE, 2)
    parts = defaultdict(list)
    for move in plan.moves:
        parts[move.taker, move.tensor, move.need].append(move.bounds)
    for (_, _, need), bounds in parts.items():
        assert sum(map(volume, bounds)) == volume(need)
        assert not any(overlap(a, b) for i, a in enumerate(bounds) for b in bounds[:i])
    taken = [0] * RANKS
    for move in plan.moves:
        taken[move.taker] += plan.nbytes(move)
    assert {move.tensor for move in plan.moves} == set(tensor_shapes(ARCH))
    assert sum(".experts." in name for name in tensor_shapes(ARCH)) == 96
    # An engine's ranks take the model once, and again what each of them needs whole.
    shared = sum(
        (engine.tensor // _places(name, engine) - 1) * math.prod(shape) * 2
        for name, shape in tensor_shapes(ARCH).items()
    )
    for first in range(0, RANKS, engine.tensor):
        assert sum(taken[first : first + engine.tensor]) == BYTES + shared
    assert all(plan.link(move) != "network" for move in plan.moves), "each node owns a whole copy"
    traffic = traffic_of(ARCH, plan)
    assert traffic.model == BYTES
    if engine.expert_parallel:  # the trainer's placement is the engine's: no expert travels
        assert not [move for move in plan.moves if ".experts." in move.tensor and move.owner != move.taker]
    sent = defaultdict(int)
    for move in plan.moves:
        sent[move.owner] += (move.owner != move.taker) * plan.nbytes(move)
    dense_only = engine.expert_parallel  # little travels, in few parts
    assert dense_only or max(sent.values()) <= 1.05 * sum(sent.values()) / RANKS, "senders are balanced"


def _places(name: str, engine: EngineLayout) -> int:
    """Over how many ranks of an engine vLLM divides a tensor."""
    if "norm" in name or name.endswith("mlp.gate.weight"):
        return 1
    return min(engine.tensor, ARCH.kv_heads) if "k_proj" in name or "v_proj" in name else engine.tensor


@pytest.mark.parametrize("region", [1 << 22, 1 << 27])
def test_both_ends_of_a_message_agree_and_none_is_longer_than_a_region(region: int) -> None:
    plan = transfers_of(ARCH, ParallelConfig(tensor=2, pipeline=2, expert=2), EngineLayout(2), 4, 4, 2)
    rounds = [{one.number: one for one in make_rounds(plan, rank, region)} for rank in range(4)]
    remote = 0
    for rank, mine in enumerate(rounds):
        for number, one in mine.items():
            for side in (one.sends, one.receives):
                assert sum(volume(chunk.bounds) for chunks in side.values() for chunk in chunks) * 2 <= region
            for peer, chunks in one.sends.items():
                theirs = rounds[peer][number].receives[rank]
                assert [(c.transfer, c.bounds) for c in chunks] == [(c.transfer, c.bounds) for c in theirs]
                # Offsets differ by where the peer's stretch begins, and by nothing else.
                assert len({c.offset - t.offset for c, t in zip(chunks, theirs, strict=True)}) == 1
            remote += sum(volume(c.bounds) for chunks in one.receives.values() for c in chunks)
        landed = [chunk.transfer for one in mine.values() for _, chunk in one.lands]
        assert landed == sorted(landed), "a rank's tensors land in the order of the plan"
    assert remote == sum(volume(move.bounds) for move in plan.moves if move.owner != move.taker)


def test_cut_makes_up_the_box() -> None:
    bounds = ((2, 9), (0, 5), (1, 12))
    for most in (1, 7, 11, 60, 1000):
        parts = list(cut(bounds, most))
        assert sum(map(volume, parts)) == volume(bounds) and max(map(volume, parts)) <= most
        assert not any(overlap(a, b) for i, a in enumerate(parts) for b in parts[:i])


def test_a_node_is_left_only_where_no_rank_of_it_owns_a_part() -> None:
    plan = transfers_of(ARCH, ParallelConfig(tensor=4, pipeline=2, expert=8), EngineLayout(8), 16, 8, 2)
    assert {plan.link(move) for move in plan.moves} == {"local", "node", "network"}
    owners = defaultdict(set)
    for rank, layout in enumerate(layouts_of_ranks(ParallelConfig(tensor=4, pipeline=2, expert=8), 16)):
        for block in blocks_of_rank(ARCH, layout):
            owners[block.tensor, block.bounds].add(rank // 8)
    for move in plan.moves:
        if plan.link(move) == "network":
            assert move.taker // 8 not in owners[move.tensor, move.block.bounds]


def test_what_does_not_match_is_named() -> None:
    owned = [blocks_of_rank(ARCH, layout) for layout in layouts_of_ranks(ParallelConfig(tensor=2), 2)]
    needed = [dict(needs_of_rank(ARCH, EngineLayout(2), rank)) for rank in range(2)]
    short = [[b for b in owned[0] if b.tensor != "model.norm.weight"], owned[1]]
    assert make_transfers(short, needed, 2, 2), "a replica will do"
    short[1] = short[0]
    with pytest.raises(RefitError, match=r"rank 0 needs model\.norm\.weight, which no rank"):
        make_transfers(short, needed, 2, 2)
    with pytest.raises(RefitError, match=r"own 155582464 of the 311164928 elements of lm_head\.weight that rank 0"):
        make_transfers([[b for b in owned[0] if b.tensor != "lm_head.weight"], owned[1]], _whole_head(needed), 2, 2)
    del needed[0]["lm_head.weight"], needed[1]["lm_head.weight"]
    with pytest.raises(RefitError, match=r"the policy has lm_head\.weight, which no engine needs"):
        make_transfers(owned, needed, 2, 2)


def _whole_head(needed: list[dict]) -> list[dict]:
    return [boxes | {"lm_head.weight": [((0, ARCH.vocab), (0, ARCH.hidden))]} for boxes in needed]


def test_an_expert_parallel_layer_takes_the_experts_of_vllms_placement() -> None:
    """On a layer as vLLM makes it for GPUs, whose placement is vLLM's own function."""
    from pivotrl.rollout import environment

    environment.prepare()
    from vllm.model_executor.layers.fused_moe.expert_map_manager import determine_expert_map
    from vllm.model_executor.layers.fused_moe.oracle.unquantized import UnquantizedMoeBackend
    from vllm.model_executor.layers.fused_moe.unquantized_fused_moe_method import UnquantizedFusedMoEMethod

    from pivotrl.rollout.inventory import _experts
    from pivotrl.rollout.landings import Staging

    method = object.__new__(UnquantizedFusedMoEMethod)
    object.__setattr__(method, "unquantized_backend", UnquantizedMoeBackend.TRITON)
    path, size = "model.layers.3.mlp.experts.routed_experts", 5  # 128 experts do not divide by 5
    for place in range(size):
        local, expert_map, _ = determine_expert_map(size, place, ARCH.experts)
        layer = SimpleNamespace(
            quant_method=method,
            moe_config=SimpleNamespace(
                has_bias=False,
                tp_size=1,
                tp_rank=0,
                intermediate_size_per_partition_unpadded=ARCH.expert_ffn,
                moe_parallel_config=SimpleNamespace(use_ep=True),
            ),
            global_num_experts=ARCH.experts,
            local_num_experts=local,
            expert_map=expert_map,
            hidden_size=ARCH.hidden,
            w13_weight=torch.empty(local, 2 * ARCH.expert_ffn, ARCH.hidden, device="meta"),
            w2_weight=torch.empty(local, ARCH.hidden, ARCH.expert_ffn, device="meta"),
        )
        _, pieces = _experts(path, layer, "cuda", Staging())
        found = {(p.source, tuple((s.start, s.stop) for s in p.source_box)) for p in pieces}
        needs = needs_of_rank(ARCH, EngineLayout(size, expert_parallel=True), place)
        names = ("model.layers.3.mlp.experts.gate_up_proj", "model.layers.3.mlp.experts.down_proj")
        assert found == {(name, bounds) for name in names for bounds in needs[name]}
