"""Dialogs played at once, with an engine that recites: the same figures as one dialog after another gives."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from pivotrl.config import parse_config
from pivotrl.demo.environment import DeskEnvironment
from pivotrl.demo.expert import success
from pivotrl.demo.world import Desk
from pivotrl.environment import Observation, build_environment
from pivotrl.episodes import Episode, Play, play
from pivotrl.rollout.records import Request
from pivotrl.trajectories.template import ChatTemplate
from tests.evaluation.reciter import TASKS, Parser, Reciter, book, template

__all__ = ["book", "template"]  # fixtures

TURN_TOKENS = 48

HOW = Play(temperature=1.0, top_p=1.0, max_new_tokens=TURN_TOKENS, context=512, max_turns=99)


class Spy(Reciter):
    """Keeps the requests of each call."""

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.rounds: list[list[Request]] = []

    def generate_all(self, requests: list[Request]):
        self.rounds.append(list(requests))
        return super().generate_all(requests)


def played(engine, template, how: Play = HOW, tasks: Sequence[int] = range(len(TASKS))) -> list[Episode]:
    worlds = [build_environment("desk", "9") for _ in tasks]
    return play(engine, Parser(), template, worlds, tasks, lambda dialog, turn: 100 * dialog + turn, how)


def alone(engine: Reciter, template: ChatTemplate, task, context: int) -> Desk:
    """One dialog by itself, to its end or to that of its context."""
    desk = Desk(task)
    while not desk.done:
        prompt = template.encode(desk.messages, desk.tools)
        if len(prompt) + TURN_TOKENS > context:
            desk.hang_up()
            break
        ((sample,),) = engine.generate_all([Request(prompt, 1, 0, 1.0, 1.0, TURN_TOKENS)])
        desk.step(Parser().parse(template.decode(sample.token_ids), desk.tools))
    return desk


@pytest.mark.parametrize("spoil_every", [0, 1])
@pytest.mark.parametrize("spared", [0, 40, 150])
def test_it_agrees_with_one_dialog_after_another(template, book, spoil_every: int, spared: int) -> None:
    engine, other = Spy(template, book, spoil_every), Reciter(template, book, spoil_every)
    longest = max(len(prompt) for prompt in book) + TURN_TOKENS
    context = longest - spared
    desks = [alone(other, template, task, context) for task in TASKS]
    episodes = played(engine, template, replace(HOW, context=context))
    assert [episode.reward for episode in episodes] == [float(success(desk)) for desk in desks]
    assert [len(episode.turns) for episode in episodes] == [desk.turns for desk in desks]
    assert engine.calls == max(desk.turns for desk in desks), "one call serves the next turns of all, and none is empty"
    assert [episode.task for episode in episodes] == list(range(len(TASKS)))
    if spoil_every == 0:
        assert [episode.abandoned for episode in episodes] == [not desk.satisfied for desk in desks]
        assert any(episode.abandoned for episode in episodes) == (spared > 0)


def test_an_episode_keeps_what_was_sampled_where(template, book) -> None:
    engine = Spy(template, book)
    episodes = played(engine, template, tasks=[4, 4, 7])
    assert episodes[0] == episodes[1]
    for index, episode in enumerate(episodes):
        asked = [r for call in engine.rounds for r in call if r.seed // 100 == index]
        assert [turn.prompt_ids for turn in episode.turns] == [request.prompt_ids for request in asked]
        assert [request.seed for request in asked] == [100 * index + turn for turn in range(len(episode.turns))]
        for turn in episode.turns:
            assert template.decode(turn.sample.token_ids) == book[tuple(turn.prompt_ids)]


def test_turns_run_out(template, book) -> None:
    full = played(Reciter(template, book), template)
    short = played(Reciter(template, book), template, replace(HOW, max_turns=4))
    for whole, cut in zip(full, short, strict=True):
        assert len(cut.turns) == min(4, len(whole.turns)) and cut.turns == whole.turns[:4]
        assert (cut.ended, cut.reward) == (("done", 1.0) if len(whole.turns) <= 4 else ("turns", 0.0))
    assert {episode.ended for episode in short} == {"done", "turns"}


def test_a_world_that_fails_is_named_with_its_task(template, book) -> None:
    class Broken(DeskEnvironment):
        def step(self, items: list[dict]) -> Observation:
            raise RuntimeError("the database is gone")

    class Endless(DeskEnvironment):
        def abandon(self) -> Observation:
            return self._observe()

    def one(world: DeskEnvironment, how: Play) -> None:
        play(Reciter(template, book), Parser(), template, [world], [5], lambda dialog, turn: 0, how)

    with pytest.raises(ValueError, match="step\\(\\) of task 5 raised RuntimeError: the database is gone"):
        one(Broken("9"), HOW)
    with pytest.raises(ValueError, match="abandon\\(\\) of task 5 did not end it"):
        one(Endless("9"), replace(HOW, max_turns=1))


def test_how_a_runs_configuration_plays() -> None:
    tree = {"output": "x", "model": {"path": "m"}, "rollout": {"max_model_len": 300, "max_new_tokens": 40}}
    assert Play.of(parse_config(tree, "test")) == Play(1.0, 1.0, 40, 300, 32)
    tree["environment"] = {"max_turns": 5, "max_episode_tokens": 200}
    assert Play.of(parse_config(tree, "test")) == Play(1.0, 1.0, 40, 200, 5)
    tree["environment"]["max_episode_tokens"] = 1000
    assert Play.of(parse_config(tree, "test")).context == 300


@pytest.mark.parametrize(
    ("seen", "says"),
    [
        (None, "a NoneType in place of"),
        (Observation([], [], True, float("nan")), "the reward nan with done=True"),
        (Observation([], [], True, "1"), "the reward '1' with done=True"),
        (Observation([], [], 1, 1.0), "whose done is no bool"),
        (Observation([], [], False, 0.0), "no messages with done=False"),
    ],
)
def test_nonsense_of_an_environment_is_one_line(template, book, monkeypatch, seen, says: str) -> None:
    monkeypatch.setattr(DeskEnvironment, "step", lambda self, items: seen)
    with pytest.raises(ValueError, match=rf"step\(\) of task 0 returned .*{says}"):
        played(Spy(template, book), template)
