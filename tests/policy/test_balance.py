"""Micro-batches: every sample on one rank, equally many on each, within the budget, and no rank waits without need."""

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pivotrl.policy.architecture import Architecture
from pivotrl.policy.balance import TOKENS, Plan, assign, partition, spread
from pivotrl.policy.cost import Cost
from pivotrl.policy.packing import Sample
from pivotrl.policy.tree_attention import Tree, visible
from tests.launch import REPOSITORY
from tests.policy.groups import sample_lists

PACKINGS = st.sampled_from(["prompt_once", "plain"])


def length(samples: list[Sample], pieces: list) -> int:
    """Tokens of the row."""
    return sum(
        len(samples[piece[0]].prompt_ids) + sum(len(samples[i].response_ids) - 1 for i in piece) for piece in pieces
    )


def group(prompt: int, responses: list[int], first: int = 1) -> list[Sample]:
    return [Sample([first] * prompt, [2] * response) for response in responses]


def costs(samples: list[Sample], plan: Plan, cost: Cost) -> list[list[float]]:
    """[rank][micro-batch]."""

    def one(piece: tuple[int, ...]) -> float:
        return cost.of_tree(len(samples[piece[0]].prompt_ids), [len(samples[i].response_ids) for i in piece])

    return [[sum(map(one, pieces)) for pieces in mine] for mine in plan.ranks]


def waited_for(samples: list[Sample], plan: Plan, cost: Cost) -> float:
    """Time of rounds in which every rank waits for the slowest."""
    return sum(max(round_) for round_ in zip(*costs(samples, plan, cost), strict=True))


@settings(deadline=None)
@given(sample_lists(), st.integers(1, 80), st.integers(1, 5), PACKINGS, st.sampled_from([1, 2]))
def test_every_sample_is_in_one_micro_batch_and_ranks_agree_on_the_count(
    samples: list[Sample], budget: int, num_ranks: int, packing: str, multiple_of: int
) -> None:
    plan = assign(samples, budget, num_ranks, packing, multiple_of=multiple_of)
    assert len(plan.ranks) == num_ranks
    assert len({len(mine) for mine in plan.ranks}) == 1, "ranks would wait for each other for ever"
    assert len(plan.ranks[0]) >= 1 and len(plan.ranks[0]) % multiple_of == 0
    pieces = [piece for mine in plan.ranks for batch in mine for piece in batch]
    assert sorted(i for piece in pieces for i in piece) == [i for i, s in enumerate(samples) if s.response_ids]
    assert all(samples[i].prompt_ids == samples[piece[0]].prompt_ids for piece in pieces for i in piece)
    assert all(len(piece) == 1 for piece in pieces) or plan.packing == "prompt_once"
    apart = length(samples, [(i,) for piece in pieces for i in piece])
    assert plan.gain == pytest.approx(apart / length(samples, pieces) if pieces else 1.0)
    assert plan == assign(samples, budget, num_ranks, packing, multiple_of=multiple_of)


@settings(deadline=None)
@given(sample_lists(), st.integers(1, 80), st.integers(1, 5), PACKINGS)
def test_a_micro_batch_keeps_the_budget_or_is_no_longer_than_a_sample_of_its_prompt_that_breaks_it(
    samples: list[Sample], budget: int, num_ranks: int, packing: str
) -> None:
    for mine in assign(samples, budget, num_ranks, packing).ranks:
        for pieces in mine:
            prompts = [samples[piece[0]].prompt_ids for piece in pieces]
            alike = [i for i, sample in enumerate(samples) if sample.response_ids and sample.prompt_ids in prompts]
            longest = max((length(samples, [(i,)]) for i in alike), default=0)
            assert length(samples, pieces) <= max(budget, longest)
            assert length(samples, pieces) <= budget or len(pieces) == 1


def test_a_tree_beyond_the_budget_repeats_its_prompt_as_rarely_as_it_can() -> None:
    plan = assign(group(20, [11] * 8), 50, 1)
    assert [[len(piece) for piece in batch] for batch in plan.ranks[0]] == [[3], [3], [2]], "20 + 3 * 10 fill 50"
    assert plan.gain == 8 * 30 / (3 * 20 + 8 * 10)


def test_a_prompt_beyond_the_budget_takes_what_fits_beside_its_longest_response() -> None:
    plan = assign(group(60, [21, 6, 6, 6, 6]), 50, 1)
    assert sorted(length(group(60, [21, 6, 6, 6, 6]), batch) for batch in plan.ranks[0]) == [80, 80]


def test_a_bin_keeps_the_budget_unless_one_alone_breaks_it() -> None:
    bins = partition([30, 5, 64, 200, 31, 1, 33], 64)
    assert [3] in bins
    assert len(bins) == 4, "30+33, 64, 200 and 31+5+1 fit in four"


def test_spreading_gives_up_where_one_finds_no_room() -> None:
    assert spread([3, 3, 2], [3, 3, 2], 2, 5) is not None
    assert spread([3, 3, 3], [3, 3, 3], 2, 5) is None


def test_one_tree_is_split_over_ranks_that_would_idle() -> None:
    samples, cost = group(64, [33] * 16), Cost(1.0, 0.0, 0.0)
    plan = assign(samples, 4096, 4, cost=cost)
    assert sorted(len(batch[0]) for (batch,) in plan.ranks) == [4, 4, 4, 4]
    assert waited_for(samples, plan, cost) == 64 + 4 * 32


def test_nothing_is_split_where_it_saves_no_time() -> None:
    samples = [s for first in range(4) for s in group(64, [33] * 8, first + 1)]
    assert all(len(piece) == 8 for mine in assign(samples, 512, 2).ranks for batch in mine for piece in batch)


@settings(deadline=None)
@given(sample_lists(), st.integers(2, 5))
def test_a_round_is_of_like_micro_batches_and_ranks_have_like_work(samples: list[Sample], num_ranks: int) -> None:
    cost = Cost(1.0, 0.1, 0.5)
    everyone = costs(samples, assign(samples, 32, num_ranks, cost=cost), cost)
    for before, after in pairwise(zip(*everyone, strict=True)):
        assert min(before) >= max(after) - 1e-9, "rounds go from the costliest down"
    work = [sum(mine) for mine in everyone]
    assert max(work) - min(work) <= max(map(max, everyone)) + 1e-9


def test_unlike_samples_are_dealt_in_like_rounds_and_to_who_has_less() -> None:
    samples = [Sample([first] * length, [2]) for first, length in enumerate([4, 9, 4, 5, 4])]
    plan = assign(samples, 9, 2, "plain")
    assert sorted(sorted(round_) for round_ in zip(*costs(samples, plan, TOKENS), strict=True)) == [[4, 5], [8, 9]]
    assert [sum(mine) for mine in costs(samples, plan, TOKENS)] == [13, 13]


@pytest.mark.parametrize(("lengths", "plain"), [([8] * 16, False), ([8], True), ([2000] * 4, True)], ids=str)
def test_trees_only_where_they_gain_and_it_says_why_not(lengths: list[int], plain: bool) -> None:
    plan = assign(group(100, lengths), 10**6, 1)
    assert plan.packing == ("plain" if plain else "prompt_once")
    assert (plan.note is not None) == plain and (plan.gain == 1) == plain
    assert not plain or "training.micro_batch_tokens" in plan.note
    assert assign(group(100, lengths), 10**6, 1, "plain").note is None, "what was asked for needs no word"


@given(st.integers(1, 9), st.lists(st.integers(1, 9), min_size=1, max_size=4))
def test_cost_counts_what_attention_sees(prompt: int, responses: list[int]) -> None:
    tree = Tree(0, prompt, tuple(n - 1 for n in responses))
    sees_TT = visible([tree], "cpu")
    assert Cost(1.0, 0.0, 0.0).of_tree(prompt, responses) == len(sees_TT)
    assert Cost(0.0, 1.0, 0.0).of_tree(prompt, responses) == sees_TT.sum()
    assert Cost(0.0, 0.0, 1.0).of_tree(prompt, responses) == sum(responses)


def test_flops_of_qwen3_30b_are_six_for_each_active_weight() -> None:
    arch = Architecture.from_hf(REPOSITORY / "pivotrl/planning/published/Qwen3-30B-A3B")
    cost = Cost.of(arch)
    active = cost.token / 6 + 2 * arch.hidden * arch.vocab
    assert active == pytest.approx(3.35e9, rel=0.01), "3.3 billion of its 30.5 are active, with the embedding"
    assert cost.response == 8 * 2048 * 151936


def test_many_ranks_do_not_have_the_costs_worked_out_for_each_placing(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    of_tree = Cost.of_tree
    monkeypatch.setattr(Cost, "of_tree", lambda *args: asked.append(1) or of_tree(*args))
    samples = [sample for first in range(64) for sample in group(20, [5, 9, 3, 7], first)]
    assign(samples, 200, 32)
    assert len(asked) < 2 * len(samples), f"{len(asked)} for {len(samples)} samples"
