"""Which groups a step samples and which it trains on."""

from types import SimpleNamespace

import pytest

from pivotrl import collect
from pivotrl.config import parse_config
from pivotrl.pivots.sampler import PivotSampler
from pivotrl.rollout.records import Request, Sample
from pivotrl.telemetry.metrics import PhaseTimer
from pivotrl.trajectories.records import Pivot, Profile, Turn
from pivotrl.verifiers.base import Verdict

B, G = 4, 2


def pivot(index: int) -> Pivot:
    name = f"t{index}"
    turn = Turn(name, name, index, 0, [], [], {"type": "message", "content": "x"}, {}, "s", "train")
    return Pivot(turn, Profile(name, [1.0, 0.0], ["a", "b"], 0.5, 0.25, "p", {}), [index], "h")


PIVOTS = [pivot(index) for index in range(23)]


class Fake:
    """Engine and scorer in one: a pivot whose number is a multiple of `mixed` has samples of both rewards."""

    def __init__(self, mixed: int, **training: int):
        tree = {"output": "unused", "model": {"path": "unused"}, "rollout": {"bank": False}}
        self.config = parse_config(tree | {"training": {"pivots_per_step": B, "group_size": G, **training}}, "test")
        self.mixed, self.world = mixed, SimpleNamespace(rank=0, world_size=1)
        self.engine = self.scorer = self
        self.requests: list[list[Request]] = []
        self.sampler = PivotSampler(PIVOTS, B, 0, 1 + self.config.training.dynamic_sampling)

    def generate_all(self, requests: list[Request], finished) -> list[list[Sample]]:
        self.requests.append(requests)
        return [[Sample([request.prompt_ids[0], i], [-1.0] * 2, "stop") for i in range(G)] for request in requests]

    def judges_apart(self, turn: Turn) -> bool:
        return False

    def verdicts(self, turns: list[Turn], groups: list[list[Sample]]) -> list[list[Verdict]]:
        return [
            [Verdict(float(i == 0 and turn.turn_index % self.mixed == 0), "reason") for i in range(G)] for turn in turns
        ]

    def experience(self, step: int) -> list[collect.Group]:
        return collect.experience(self, self.sampler, step, PhaseTimer())

    def chosen(self, groups: list[collect.Group]) -> list[collect.Group]:
        return collect.chosen(self.config.training, groups)


def names(groups: list[collect.Group]) -> list[str]:
    return [group.pivot.id for group in groups]


def test_without_it_a_step_is_its_batch_in_its_order() -> None:
    fake = Fake(mixed=3)
    for step in range(8):
        groups = fake.experience(step)
        assert names(fake.chosen(groups)) == names(groups) == [item.id for item in fake.sampler.batch(step)]
    assert len(fake.requests) == 8
    assert collect.cost_of_draws(fake.config.training, groups) == {}


def test_a_step_draws_until_enough_groups_carry_a_signal() -> None:
    fake = Fake(mixed=2, dynamic_sampling=4)
    draws = set()
    for step in range(12):
        fake.requests = []
        groups = fake.experience(step)
        used = fake.chosen(groups)
        draws.add(len(fake.requests))
        assert len(used) == B and all(group.has_signal for group in used)
        assert names(used) == names([group for group in groups if group.has_signal][:B]), "the first, in order"
        before = groups[: B * (len(fake.requests) - 1)]
        assert sum(group.has_signal for group in before) < B, "no draw that was not needed"
        cost = collect.cost_of_draws(fake.config.training, groups)
        assert cost == {"draws": len(fake.requests), "unused_share": 1 - 1 / len(fake.requests)}
    assert max(draws) > 1 and max(draws) <= 5


def test_the_cap_holds_and_the_batch_is_filled_up() -> None:
    fake = Fake(mixed=23, dynamic_sampling=2)
    for step in range(6):
        groups = fake.experience(step)
        used = fake.chosen(groups)
        assert len(groups) == 3 * B and len(used) == B
        signal = [group for group in groups if group.has_signal]
        assert used[: len(signal)] == signal, "what carries a signal comes first"


def test_enough_at_once_is_one_draw() -> None:
    fake = Fake(mixed=1, dynamic_sampling=3)
    assert len(fake.experience(0)) == B and len(fake.requests) == 1


def test_steps_and_draws_are_pure_and_a_pivot_that_comes_twice_is_sampled_anew() -> None:
    fake = Fake(mixed=23, dynamic_sampling=6)
    once, again = fake.experience(5), fake.experience(5)
    assert fake.requests[:7] == fake.requests[7:] and names(once) == names(again)
    seeds = [request.seed for draw in fake.requests[:7] for request in draw]
    assert len(set(names(once))) < len(once), "28 draws of 23 pivots"
    assert len(set(seeds)) == len(seeds)
    plain = Fake(mixed=1)
    first_draw = [pivot.id for pivot in fake.sampler.batch(0)]
    assert first_draw == [pivot.id for pivot in plain.sampler.batch(0)]
    plain.experience(0), fake.experience(0)
    assert fake.requests[14] == plain.requests[0], "and the first draw of the first step is that of a plain run"


def test_two_steps_never_draw_the_same_batch() -> None:
    sampler = PivotSampler(PIVOTS, B, 0, 2)
    epoch = [item.id for step in range(2) for draw in range(2) for item in sampler.batch(step, draw)]
    assert len(set(epoch)) == 4 * B
    with pytest.raises(AssertionError):
        sampler.batch(0, 2)
