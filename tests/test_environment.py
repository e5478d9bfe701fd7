"""Environments by name, and the desk as one."""

import sys
from types import ModuleType

import pytest

from pivotrl.demo.expert import expert_turn
from pivotrl.demo.tasks import make_task
from pivotrl.demo.world import Desk
from pivotrl.environment import build_environment


def test_the_expert_earns_one_and_a_mistake_nothing() -> None:
    desk = build_environment("desk", "live")
    for task in range(8):
        seen = desk.reset(task)
        assert seen.messages == Desk(make_task("live", task)).messages and not seen.done
        while not seen.done:
            before = list(seen.messages)
            assert desk.step([expert_turn(desk.desk)[1]]).messages[: len(before)] == before == seen.messages
            seen = desk._observe()
        assert seen.reward == 1.0
    seen = desk.reset(0)
    while not seen.done:
        seen = desk.step([{"type": "message", "content": "no"}])
    assert seen.reward == 0.0
    assert desk.reset(0).messages != build_environment("desk", "train").reset(0).messages


def test_an_abandoned_dialog_is_over() -> None:
    desk = build_environment("desk", "live")
    desk.reset(3)
    seen = desk.abandon()
    assert seen.done and seen.reward == 0.0


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("dessk", "'dessk' is not an environment; write desk, or your own as"),
        ("nowhere.at_all:World", "cannot be imported"),
        ("pivotrl.demo.environment:Shop", "has no 'Shop'"),
        ("pivotrl.demo.world:Desk", "has no reset, abandon"),
    ],
)
def test_a_name_that_cannot_be_used(name: str, said: str) -> None:
    with pytest.raises(ValueError, match=f"environment.name: .*{said}"):
        build_environment(name, "train")


def test_the_users_own_class(monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("my_world")

    class World:
        def __init__(self, stream: str) -> None:
            self.stream = stream

        def reset(self, task: int) -> None: ...
        def step(self, items: list[dict]) -> None: ...
        def abandon(self) -> None: ...

    module.World = World
    monkeypatch.setitem(sys.modules, "my_world", module)
    assert build_environment("my_world:World", "evening").stream == "evening"
