"""A step's batch of episodes: every sampled token once, behind the prompt that it was sampled from."""

from collections.abc import Sequence

import pytest

from pivotrl.baselines.end_to_end import build_worlds, describe, make_batch, tasks_of
from pivotrl.config import RunConfig, parse_config
from pivotrl.episodes import Episode, EpisodeTurn
from pivotrl.policy.packing import Sample
from pivotrl.rollout import records


def config_of(**sections: dict) -> RunConfig:
    training = {"pivots_per_step": 2, "group_size": 2} | sections.pop("training", {})
    tree = {"output": "x", "model": {"path": "m"}, "rollout": {"max_model_len": 99, "max_new_tokens": 9}}
    return parse_config(tree | {"training": training} | sections, "test")


def turn(prompt: Sequence[int], action: Sequence[int], finish: str = "stop") -> EpisodeTurn:
    return EpisodeTurn(list(prompt), records.Sample(list(action), [-float(token) for token in action], finish))


SMOOTH = [turn([1, 2], [3, 4]), turn([1, 2, 3, 4, 5], [6]), turn([1, 2, 3, 4, 5, 6, 7, 8], [9, 10])]
REWRITTEN = [turn([1, 2], [3, 30]), turn([1, 2, 3, 4, 5], [6]), turn([1, 2, 3, 4, 5, 6, 7], [8], "length")]
EPISODES = [
    Episode(0, SMOOTH, 1.0, "done"),
    Episode(0, REWRITTEN, 0.0, "turns"),
    Episode(1, [turn([5], [6])], 1.0, "done"),
    Episode(1, [], 1.0, "context"),
]


def behind(sample: Sample) -> list[tuple[list[int], int, float]]:
    """(all before it, token, the sampler's log-prob) of every target."""
    ids, first = [*sample.prompt_ids, *sample.response_ids], len(sample.prompt_ids)
    places = [first + place for place in sample.targets]
    return [(ids[:place], ids[place], lp) for place, lp in zip(places, sample.sampler_log_probs, strict=True)]


def sampled(turns: Sequence[EpisodeTurn]) -> list[tuple[list[int], int, float]]:
    return [
        ([*one.prompt_ids, *one.sample.token_ids[:n]], token, -float(token))
        for one in turns
        for n, token in enumerate(one.sample.token_ids)
    ]


@pytest.mark.parametrize("objective", [{}, {"ratio": "sequence"}, {"aggregation": "sequence_mean"}])
def test_every_sampled_token_is_a_target_behind_what_it_was_sampled_from(objective: dict) -> None:
    batch = make_batch(config_of(objective=objective), EPISODES)
    found = [target for sample in batch for target in behind(sample)]
    assert found == [target for episode in EPISODES for target in sampled(episode.turns)]
    assert [len(sample.targets) for sample in batch] == ([2, 1, 2, 2, 1, 1, 1] if objective else [5, 2, 2, 1])
    advantages = [round(sample.advantage, 3) for sample in batch]
    assert advantages == [1.0] * (3 if objective else 1) + [-1.0] * (3 if objective else 2) + [0.0]


def test_routes_of_the_engine_keep_turns_apart() -> None:
    assert len(make_batch(config_of(training={"router_replay": "engine"}), EPISODES)) == 7


def test_a_step_whose_episodes_have_no_turn_says_what_to_raise() -> None:
    with pytest.raises(ValueError, match=r"the first prompt of every episode, with rollout\.max_new_tokens behind it"):
        make_batch(config_of(), EPISODES[-1:] * 4)


def test_metrics_count_turns_and_how_episodes_end() -> None:
    row = describe(EPISODES, 2, {"rollout": 2.0, "total": 10.0})
    assert (row["samples"], row["rollout_turns"], row["episodes"], row["turns_per_episode"]) == (7, 7, 4, 7 / 4)
    assert (row["reward"], row["signal_share"]) == (0.75, 0.5)
    assert (row["out_of_turns_share"], row["out_of_context_share"]) == (0.25, 0.25)
    assert (row["response_tokens"], row["sampled_per_second"], row["cut_off_share"]) == (10, 5.0, 1 / 7)
    assert row["tokens_per_second"] == (2 + 5 + 8 + 2 + 5 + 7 + 1 + 10) / 10


def test_tasks_are_new_ones_or_passes_over_some() -> None:
    assert [tasks_of(config_of())(step) for step in range(2)] == [[0, 1], [2, 3]]
    some = tasks_of(config_of(environment={"tasks": 5}))
    assert len({task for step in range(2) for task in some(step)}) == 4
    assert all(task < 5 for step in range(20) for task in some(step))


def test_what_cannot_be_done_is_refused() -> None:
    with pytest.raises(ValueError, match=r"environment\.tasks is 1, and training\.pivots_per_step, .*, 2: lower"):
        tasks_of(config_of(environment={"tasks": 1}))
    with pytest.raises(ValueError, match=r"training\.dynamic_sampling is 3"):
        tasks_of(config_of(training={"dynamic_sampling": 3}))
    with pytest.raises(ValueError, match="'nowhere' is not an environment"):
        build_worlds(config_of(environment={"name": "nowhere"}))
    assert len({id(world) for world in build_worlds(config_of())}) == 4
