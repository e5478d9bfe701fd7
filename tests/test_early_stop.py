"""Groups that stop early: the gradient's mean by enumeration of all that can happen, and the waves that sample them.

Legend: K actions of a categorical policy, softmax of its K logits; G samples of a group.
"""

import itertools
import math
import random
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
import torch.distributed as dist
from torch import Tensor

from pivotrl import collect
from pivotrl.config import parse_config
from pivotrl.early_stop import Stopping, coin_of, decide
from pivotrl.objective.config import ObjectiveConfig
from pivotrl.objective.loss import global_denominator
from pivotrl.pivots.sampler import PivotSampler
from pivotrl.policy.packing import Sample as Trained
from pivotrl.rollout.records import Request, Sample
from pivotrl.telemetry.metrics import PhaseTimer
from pivotrl.trajectories.records import Turn
from pivotrl.verifiers.base import Verdict
from tests.test_collect import PIVOTS

G, AFTER, KEEP = 4, 2, 0.3
P_K = torch.tensor([0.3, -0.9, 0.2], dtype=torch.float64).softmax(0)
REWARDS, LENGTHS = [1.0, 0.0, 0.25], [5, 2, 3]
OUTCOMES = list(itertools.product(range(3), repeat=G))
TREE = {"output": "unused", "model": {"path": "unused"}}


def chance(actions: tuple[int, ...]) -> float:
    return math.prod(float(P_K[action]) for action in actions)


def group_of(actions: tuple[int, ...], stopping: Stopping | None) -> collect.Group:
    samples = [Sample([action] * LENGTHS[action], [-1.0] * LENGTHS[action], "stop") for action in actions]
    return collect.Group(PIVOTS[0], samples, [REWARDS[action] for action in actions], ["r"] * len(actions), stopping)


def gradient(objective: ObjectiveConfig, *groups: collect.Group, denominator: float | None = None) -> Tensor:
    """d loss / d logits [K] of a batch on policy, from what the trainer is given."""
    batch: list[Trained] = collect.make_batch(SimpleNamespace(config=SimpleNamespace(objective=objective)), groups)
    lengths, stand = [len(sample.response_ids) for sample in batch], [sample.stands_for for sample in batch]
    total_K = torch.zeros(3, dtype=torch.float64)
    for sample in batch:
        score_K = torch.nn.functional.one_hot(torch.tensor(sample.response_ids[0]), 3) - P_K
        total_K -= sample.advantage * score_K
    return total_K / (denominator or global_denominator(objective, lengths, stand))


def branches(actions: tuple[int, ...], order: list[int], keep: float) -> list[tuple[float, collect.Group]]:
    """What can become of a group, with its chance, decided by the first samples of `order`."""
    first = tuple(actions[index] for index in order[:AFTER])
    coins = [(keep, 0.0), (1 - keep, keep)]
    found = []
    for share, coin in coins:
        stopping = decide([REWARDS[action] for action in first], G, keep, coin)
        found.append((share, group_of(first if stopping.stopped else actions, stopping)))
    return found


def by_number(actions: tuple[int, ...]) -> list[int]:
    return list(range(G))


def by_finish(actions: tuple[int, ...]) -> list[int]:
    return sorted(range(G), key=lambda index: LENGTHS[actions[index]])


def mean_gradient(objective: ObjectiveConfig, rule, keep: float, **how) -> Tensor:
    return sum(
        chance(actions) * share * gradient(objective, group, **how)
        for actions in OUTCOMES
        for share, group in branches(actions, rule(actions), keep)
    )


@pytest.mark.parametrize("advantage", ["grpo", "leave_one_out", "mean_only"])
@pytest.mark.parametrize("aggregation", [{"aggregation": "sequence_mean"}, {"tokens_per_sample": 8.0}])
def test_the_mean_of_the_gradient_is_that_of_whole_groups(advantage: str, aggregation: dict) -> None:
    objective = ObjectiveConfig(advantage=advantage, **({"aggregation": "constant"} | aggregation))
    full_K = sum(chance(actions) * gradient(objective, group_of(actions, None)) for actions in OUTCOMES)
    assert float(full_K.abs().max()) > 0.01
    kept_K = mean_gradient(objective, by_number, KEEP)
    assert float((kept_K - full_K).abs().max()) < 1e-12
    # Without the coin it is biased, by less than a mistake in the weight or in the denominator would.
    assert float((mean_gradient(objective, by_number, 0.0) - full_K).abs().max()) > 0.05 * float(full_K.abs().max())


def test_an_estimate_s_denominator_leaves_the_mean_of_the_numerator() -> None:
    objective = ObjectiveConfig(aggregation="token_mean")
    full_K = sum(
        chance(actions) * gradient(objective, group_of(actions, None), denominator=1.0) for actions in OUTCOMES
    )
    assert float((mean_gradient(objective, by_number, KEEP, denominator=1.0) - full_K).abs().max()) < 1e-12
    stopped = group_of((0, 0), Stopping(AFTER, G, 0.0))
    (one, two) = collect.make_batch(SimpleNamespace(config=SimpleNamespace(objective=objective)), [stopped])
    assert global_denominator(objective, [5, 5], [one.stands_for, two.stands_for]) == G * 5.0


def test_who_finishes_first_is_biased() -> None:
    """Means over the samples that finish first, and the gradient of a group that is left with them."""
    mean = float(P_K @ torch.tensor(REWARDS, dtype=torch.float64))

    def reward(rule, keep: float) -> float:
        return sum(
            chance(actions) * share * collect.mean_reward([group])
            for actions in OUTCOMES
            for share, group in branches(tuple(actions[index] for index in rule(actions)), list(range(G)), keep)
        )

    assert abs(reward(by_number, KEEP) - mean) < 1e-12 and abs(reward(by_number, 0.0) - mean) < 1e-12
    assert abs(reward(by_finish, KEEP) - mean) > 0.1, "the action of reward 1 is the longest"
    objective = ObjectiveConfig(advantage="mean_only", aggregation="sequence_mean")
    full_K = sum(chance(actions) * gradient(objective, group_of(actions, None)) for actions in OUTCOMES)
    # E[sum_i A_i grad log p(y_i)] = (n - 1) Cov(r, grad log p) of n samples, so three of four have 8/9 of the mean.
    left = {
        rule: sum(
            chance(actions) * gradient(objective, group_of(tuple(actions[i] for i in rule(actions)[:3]), None))
            for actions in OUTCOMES
        )
        for rule in (by_number, by_finish)
    }
    assert float((left[by_number] * 9 / 8 - full_K).abs().max()) < 1e-12
    off_K = left[by_finish] * 9 / 8 - full_K
    assert float(off_K.abs().max()) > 0.2 * float(full_K.abs().max())
    # Finished whole or not at all, with the weight, even such a group keeps its mean: the weight is all that it takes.
    assert float((mean_gradient(objective, by_finish, KEEP) - full_K).abs().max()) < 1e-12


def test_the_coin_is_uniform_and_knows_no_neighbour() -> None:
    coins = [coin_of(seed) for seed in range(20_000)]
    assert all(0 <= coin < 1 for coin in coins)
    for share in (0.1, 0.25, 0.5):
        heads = [coin < share for coin in coins]
        assert abs(sum(heads) / len(heads) - share) < 0.015
        pairs = sum(one and other for one, other in itertools.pairwise(heads)) / len(heads)
        assert abs(pairs - share**2) < 0.015


# ---------------------------------------------------------------- the waves


class Fake:
    """Session and scorer in one, with an engine. A sample and its reward follow from prompt, seed and number."""

    def __init__(self, folder: Path, steps: int = 1, dies_after: int | None = None, **early: float | None):
        rollout = {"early_stop": early, "bank": dies_after is not None}
        training = {"pivots_per_step": 8, "group_size": 6, "steps": steps}
        tree = TREE | {"output": str(folder), "rollout": rollout, "training": training}
        self.config = parse_config(tree, "test")
        self.world, self.scorer = SimpleNamespace(rank=0, world_size=1), self
        self.engine = SimpleNamespace(rank=0, weights="w", config=self.config.rollout, generate_all=self.generate_all)
        self.engine.object_group = dist.group.WORLD if dist.is_initialized() else None
        self.dies_after, self.waves = dies_after, list[list[Request]]()
        self.sampled = 0

    def generate_all(self, requests: list[Request], finished) -> list[list[Sample]]:
        self.waves.append(requests)
        results = []
        for number, one in enumerate(requests):
            if self.sampled == self.dies_after:
                raise KeyboardInterrupt
            self.sampled += 1
            draws = [random.Random(f"{one.seed} {one.first + index}") for index in range(one.n)]
            results.append([Sample([draw.randrange(9)] * draw.randrange(1, 5), [], "stop") for draw in draws])
            results[-1] = [replace(sample, logprobs=[-1.0] * len(sample.token_ids)) for sample in results[-1]]
            finished(number, results[-1])
        return results

    def judges_apart(self, turn: Turn) -> bool:
        return False

    def verdicts(self, turns: list[Turn], groups: list[list[Sample]]) -> list[list[Verdict]]:
        return [
            [Verdict(float(sample.token_ids[0] > turn.turn_index % 9), f"r{sample.token_ids[0] % 2}") for sample in row]
            for turn, row in zip(turns, groups, strict=True)
        ]

    def experience(self, step: int) -> list[collect.Group]:
        return collect.experience(self, PivotSampler(PIVOTS, 8, 0), step, PhaseTimer())


def test_the_second_wave_has_the_groups_that_go_on_and_the_samples_that_they_would_have(tmp_path: Path) -> None:
    outcomes = []
    for step in range(12):
        whole, early = Fake(tmp_path), Fake(tmp_path, after=3, keep=0.5)
        for full, group, request in zip(whole.experience(step), early.experience(step), whole.waves[0], strict=True):
            kept = len(group.samples)
            assert group.samples == full.samples[:kept] and group.rewards == full.rewards[:kept]
            assert group.reasons == full.reasons[:kept]
            settled = len(set(full.rewards[:3])) == 1
            goes_on = not settled or coin_of(request.seed) < 0.5
            assert group.stopping == Stopping(3, 6, 1.0 if not settled else 2.0 if goes_on else 0.0)
            assert kept == (6 if goes_on else 3)
            outcomes.append(group.weight)
        first, second = early.waves
        assert [(one.n, one.first) for one in first] == [(3, 0)] * 8
        assert all((one.n, one.first) == (3, 3) for one in second) and len(whole.waves) == 1
    assert {0.0, 1.0, 2.0} == set(outcomes)


def test_no_second_wave_where_every_group_is_settled(tmp_path: Path) -> None:
    fake = Fake(tmp_path, after=3, keep=0.0)
    fake.verdicts = lambda turns, groups: [[Verdict(1.0, "good")] * len(group) for group in groups]
    groups = fake.experience(0)
    assert len(fake.waves) == 1 and all(group.stopping.stopped for group in groups)
    batch = collect.make_batch(fake, groups)
    assert [sample.advantage for sample in batch] == [0.0] * 24
    stand = [sample.stands_for for sample in batch]
    assert global_denominator(ObjectiveConfig(aggregation="sequence_mean"), [1] * 24, stand) == 8 * 6


def test_what_a_step_reports_is_not_bent_by_what_was_stopped(tmp_path: Path) -> None:
    seconds = {"total": 1.0, "rollout": 1.0}
    groups = Fake(tmp_path, after=3, keep=0.5).experience(0)
    row = collect.describe(groups, seconds)
    firsts = [reward for group in groups for reward in group.rewards[:3]]
    stopped = sum(group.weight == 0 for group in groups)
    assert 0 < stopped < 8
    assert row["reward"] == collect.mean_reward(groups) == sum(firsts) / 24
    shares = {key.removeprefix("reason."): row[key] for key in row if key.startswith("reason.")}
    assert math.isclose(sum(share * row[f"reward.{key}"] for key, share in shares.items()), row["reward"])
    assert row["samples"] == 48 - 3 * stopped
    assert row["early_stopped_share"] == stopped / 8 and row["samples_saved_share"] == 3 * stopped / 48
    assert row["signal_share"] == sum(group.weight for group in groups if group.has_signal) / 8
    plain = collect.describe(Fake(tmp_path).experience(0), seconds)
    assert set(row) - set(plain) == {"early_stopped_share", "samples_saved_share"}


@pytest.mark.parametrize("dies_after", [3, 9])
def test_a_step_killed_in_either_wave_is_finished_from_the_bank(tmp_path: Path, dies_after: int) -> None:
    if dist.is_initialized():
        pytest.skip("another test left a process group")
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    try:
        early = {"after": 3, "keep": 0.5}
        expected = Fake(tmp_path / "other", **early).experience(4)
        needed = 8 + sum(not group.stopping.stopped for group in expected)
        with pytest.raises(KeyboardInterrupt):
            Fake(tmp_path, dies_after=dies_after, **early).experience(4)
        again = Fake(tmp_path, dies_after=99, **early)
        assert again.experience(4) == expected
        assert again.sampled == needed - dies_after, "what is in the bank is not sampled again"
        idle = Fake(tmp_path, dies_after=0, **early)
        assert idle.experience(4) == expected, "a group that was stopped stays so"
    finally:
        dist.destroy_process_group()


@pytest.mark.parametrize(
    ("tree", "fragments"),
    [
        ({"training": {"group_size": 4}}, ["rollout.early_stop.after is 4", "training.group_size is 4"]),
        ({"objective": {"beta": 0.1}}, ["objective.beta is 0.1", "early_stop.keep is 0.25", "keep to 0 (biased)"]),
        ({"objective": {"entropy_bonus": 0.1}}, ["objective.entropy_bonus is 0.1"]),
        ({"model": {"path": "x", "aux_loss": 0.1}}, ["model.aux_loss is 0.1"]),
        ({"training": {"dynamic_sampling": 2}}, ["training.dynamic_sampling is 2"]),
        ({"rollout": {"early_stop": {"after": 1}}}, ["rollout.early_stop.after", "found 1"]),
        ({"rollout": {"early_stop": {"after": 4, "keep": 1}}}, ["rollout.early_stop.keep", "found 1"]),
        ({"rollout": {"early_stop": {"atfer": 4}}}, ["did you mean rollout.early_stop.after?"]),
    ],
)
def test_what_it_cannot_weigh_is_refused(tree: dict, fragments: list[str]) -> None:
    with pytest.raises(ValueError) as caught:
        parse_config(TREE | {"rollout": {"early_stop": {"after": 4}}} | tree, "here")
    assert all(fragment in str(caught.value) for fragment in fragments), caught.value
    if "beta" in str(caught.value):
        parse_config(TREE | {"rollout": {"early_stop": {"after": 4, "keep": 0}}} | tree, "here")
