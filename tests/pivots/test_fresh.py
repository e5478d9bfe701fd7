"""The state machine of fresh pivots: what is drawn, what retires, what is profiled anew, and that a state is whole."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pivotrl.config import parse_config
from pivotrl.pivots.fresh import FreshSampler
from pivotrl.trajectories.records import Pivot, Profile, Turn

B, G, PIVOTS, OTHERS = 4, 8, 24, 16


def turn(index: int, rewards: list[float]) -> Pivot:
    name = f"t{index}"
    record = Turn(name, name, 0, 1, [], [], {"type": "message", "content": "x"}, {}, "s", "train")
    return Pivot(record, Profile(name, rewards, [""] * len(rewards), 0.0, 0.0, "p", {}), [index], "h")


POOL = [
    *(turn(index, [1.0, 0.0] * 4) for index in range(PIVOTS)),
    *(turn(PIVOTS + index, [[0.0] * 8, [1.0] * 8, []][index % 3]) for index in range(OTHERS)),
]


def sampler(seed: int = 0, **fresh) -> FreshSampler:
    tree = {"output": "unused", "seed": seed, "model": {"path": "unused"}}
    training = {"pivots_per_step": B, "group_size": G, "dynamic_sampling": fresh.pop("rounds", 1) - 1}
    tree |= {"training": training, "fresh": {"enabled": True, "memory": 0.8, **fresh}, "pivots": {"max_mean": 0.9}}
    return FreshSampler(POOL, PIVOTS, parse_config(tree, "test"))


def ids(one: FreshSampler, step: int, draw: int = 0) -> list[int]:
    return [pivot.prompt_ids[0] for pivot in one.batch(step, draw)]


def play(one: FreshSampler, steps: range, rates: list[float], log: list) -> None:
    """Training in small: each turn passes at its rate; the seeds follow from step and turn, as a run's do."""
    for step in steps:
        if one.due(step):
            found = {}
            for index in one.candidates(step):
                noise = random.Random(f"profile {step} {index}")
                rewards: list[float] = []
                while more := one.rule.more(rewards):
                    rewards += [float(noise.random() < rates[index]) for _ in range(more)]
                found[index] = rewards
            one.profiled(step, found)
        drawn = [index for draw in range(one.rounds) for index in ids(one, step, draw)]
        groups = []
        for index in drawn:
            noise = random.Random(f"train {step} {index}")
            groups.append([float(noise.random() < rates[index]) for _ in range(G)])
        one.observe(step, groups)
        log.append((step, drawn, sum(min(group) < max(group) for group in groups), one.metrics()))


def test_only_pivots_are_drawn_at_first_each_once_a_step() -> None:
    one = sampler(rounds=3)
    for step in range(20):
        drawn = [index for draw in range(3) for index in ids(one, step, draw)]
        assert len(set(drawn)) == 3 * B and max(drawn) < PIVOTS
    assert ids(one, 5) == ids(sampler(rounds=3), 5) != ids(sampler(seed=1, rounds=3), 5)
    assert not one.due(0)


def test_what_passes_throughout_retires_and_comes_back_once_it_is_mixed_again() -> None:
    one = sampler(retire_below=0.3, every=0, below=0.0)
    seen = ids(one, 0)
    one.observe(0, [[1.0] * G] * B)
    assert one._beliefs.active_N[seen].all(), "the 4 of 8 of the selection weigh as much"
    for step in range(1, 12):
        seen += ids(one, step)
        one.observe(step, [[1.0] * G] * B)
    retired = sorted({index for index in seen if not one._beliefs.active_N[index]})
    assert len(retired) >= 2, "all of a group of 8 passed, and old evidence of 8 samples has faded"
    assert not set(retired) & {index for step in range(12, 40) for index in ids(one, step)}
    one.profiled(12, {retired[0]: [1.0, 0.0], retired[1]: [1.0, 1.0]})
    assert one._beliefs.active_N[retired[0]] and not one._beliefs.active_N[retired[1]]
    assert one.metrics()["reprofiled_turns"] == 2 and one.metrics()["profiling_samples"] == 4
    assert retired[0] in {index for step in range(9, 60) for index in ids(one, step)}


def test_a_reprofiling_is_due_by_the_schedule_for_want_of_signal_and_for_want_of_pivots() -> None:
    mixed, passed = [[1.0, 0.0] * 4] * B, [[1.0] * G] * B
    scheduled = sampler(every=4, below=0.0)
    for step in range(4):
        assert not scheduled.due(step)
        scheduled.observe(step, mixed)
    assert scheduled.due(4)
    scheduled.profiled(4, {})
    assert not scheduled.due(4) and not scheduled.due(7) and scheduled.due(8)
    weak = sampler(every=0, below=0.5, retire_below=0.0)
    for step, rewards in enumerate([mixed, passed, passed]):
        assert not weak.due(step), "fewer than three steps tell too little"
        weak.observe(step, rewards)
    assert weak.due(3)
    none_left = sampler(every=0, below=0.0, retire_below=0.99)
    for step in range(3):
        assert not none_left.due(step)
        none_left.observe(step, passed)
    assert none_left.due(3) and len(set(ids(none_left, 1))) == B, "and yet a step gets its batch"


def test_candidates_are_not_active_and_the_long_unseen_come_first() -> None:
    one = sampler(turns=5)
    found = [index for step in range(60) for index in one.candidates(step)]
    assert min(found) >= PIVOTS and len(found) == 300
    unprofiled = [index for index in one.candidates(0) if POOL[index].profile.rewards == []]
    counts = {bool(POOL[index].profile.rewards): 0 for index in found}
    for step in range(60):
        for index in sampler(turns=5, seed=step).candidates(0):
            counts[bool(POOL[index].profile.rewards)] += 1
    assert counts[False] / 5 > counts[True] / 11, "a turn that never failed in 8 is a worse bet than an unknown one"
    assert unprofiled


@settings(deadline=None, max_examples=15)
@given(
    st.integers(0, 10**6),
    st.integers(1, 17),
    st.sampled_from(["uniform", "variance"]),
    st.integers(1, 2),
    st.sampled_from([0.0, 0.3, 0.9]),
)
def test_a_state_restored_at_any_step_goes_on_as_if_nothing_had_happened(seed, cut, weights, rounds, bound) -> None:
    noise = random.Random(seed)
    rates = [noise.choice([0.0, 0.3, 0.9, 1.0]) for _ in POOL]
    keys = {"seed": seed, "weights": weights, "rounds": rounds, "retire_below": bound, "every": 5, "turns": 6}
    straight, log = sampler(**keys), []
    play(straight, range(18), rates, log)
    before, resumed_log = sampler(**keys), []
    play(before, range(cut), rates, resumed_log)
    after = sampler(**keys)
    after.restore(before.state())
    assert ids(after, cut) == ids(before, cut)
    play(after, range(cut, 18), rates, resumed_log)
    assert resumed_log == log and after.state() == straight.state()
    for _, drawn, _, metrics in log:
        assert len(set(drawn)) == len(drawn) == rounds * B
        assert 0 <= metrics["active_pivots"] <= len(POOL)
        assert metrics["profiling_samples"] <= 4 * metrics["reprofiled_turns"]


def test_it_finds_the_turns_that_still_teach() -> None:
    """20 of 24 pivots always pass now, and 4 that never passed are mixed: uniform epochs would see a signal in a
    sixth of their groups."""
    rates = [1.0] * 20 + [0.5] * 4 + [1.0] * OTHERS
    for index in range(PIVOTS, PIVOTS + 12, 3):
        rates[index] = 0.5
    one, log = sampler(every=4, turns=8), []
    play(one, range(30), rates, log)
    signal = sum(row[2] for row in log[-10:]) / (10 * B)
    assert signal > 0.7, signal


def test_too_few_pivots_name_the_remedy() -> None:
    tree = {"output": "u", "model": {"path": "u"}, "training": {"pivots_per_step": 30}, "fresh": {"enabled": True}}
    with pytest.raises(ValueError, match=r"training\.pivots_per_step is 30, but there are 24 pivots"):
        FreshSampler(POOL, PIVOTS, parse_config(tree, "test"))


def test_a_state_of_other_turns_is_refused_even_of_as_many() -> None:
    one = sampler()
    one.observe(0, [[1.0] * G] * B)
    tree = {"output": "unused", "model": {"path": "unused"}, "fresh": {"enabled": True}}
    config = parse_config(tree | {"training": {"pivots_per_step": B, "group_size": G}}, "test")
    other = FreshSampler([*POOL[1:PIVOTS], POOL[0], *POOL[PIVOTS:]], PIVOTS, config)
    with pytest.raises(ValueError, match="its turns are others than the run's pool has, or in another order"):
        other.restore(one.state())
    FreshSampler(POOL, PIVOTS, config).restore(one.state())
