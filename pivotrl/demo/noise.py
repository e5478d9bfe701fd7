"""Wrong turns, for the logs that make the base model half-good.

Each kind of expert turn has a chance of being replaced by a mistake that an agent could make there. The mistakes are
such that the `tool_call` verifier sees them: a wrong call, a message instead of a call, or a call instead of a message.
"""

import random
from dataclasses import replace

from pivotrl.demo.desk_tools import CITIES, METHODS, REASONS, USER_IDS
from pivotrl.demo.expert import DONE, call, carry_out, expert_turn, say
from pivotrl.demo.tasks import Request, Task
from pivotrl.demo.world import Desk

NOISE: dict[str, float] = {"ask": 0.5, "find": 0.45, "get": 0.5, "act": 0.6, "refuse": 0.65, "reply": 0.45}
"""Kind of turn -> chance of a mistake. Below .7, so that a sample of eight nearly always holds a right turn too."""

_WHY = ("status", "method", "owner")


def mistake(desk: Desk, kind: str, rng: random.Random) -> dict:
    """A wrong item for a turn of this kind."""
    request = desk.request
    own = [order.order_id for order in desk.task.orders if order.owner == desk.task.user_id]
    other = rng.choice([order_id for order_id in own if order_id != request.order_id])
    if kind == "ask":
        return rng.choice((call("find_user", rng.choice(USER_IDS)), call("get_order", request.order_id)))
    if kind == "find":
        user_id = rng.choice([u for u in USER_IDS if u != desk.task.user_id])
        return rng.choice((call("get_order", request.order_id), call("find_user", user_id), say(DONE)))
    if kind == "get":
        blind = call("transfer", rng.choice(_WHY)) if request.kind == "check" else carry_out(request, request.order_id)
        return rng.choice((call("get_order", other), blind, blind))
    if kind == "act":
        wrong = _wrong_value(request, desk, rng)
        return rng.choice((wrong, carry_out(request, other), call("transfer", "status"), say(DONE)))
    if kind == "refuse":
        if rng.random() < 0.75 and request.kind != "check":
            return carry_out(request, request.order_id)
        return say(DONE)
    assert kind == "reply", kind
    return rng.choice((call("get_order", request.order_id), call("transfer", "status")))


def _wrong_value(request: Request, desk: Desk, rng: random.Random) -> dict:
    """The right call on the right order, with another reason, city or method."""
    choices = {"cancel": REASONS, "change": CITIES, "refund": METHODS}[request.kind]
    value = rng.choice([value for value in choices if value != request.value])
    return carry_out(replace(request, value=value), request.order_id)


def play(task: Task, rng: random.Random | None = None, noise: dict[str, float] | None = None) -> tuple[Desk, list]:
    """Play the expert, with mistakes where `noise` says so -> (desk, [(index into messages, kind of turn)]).

    After a mistake the expert goes on from the real state, so the logs show how to recover.
    """
    desk, turns = Desk(task), []
    while not desk.done:
        kind, item = expert_turn(desk)
        if noise and rng.random() < noise[kind]:
            item = mistake(desk, kind, rng)
        turns.append((len(desk.messages), kind))
        desk.step([item])
    return desk, turns
