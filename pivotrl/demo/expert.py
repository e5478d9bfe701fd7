"""The desk's expert: follows the policy, solves every task; and the check of a dialog against it."""

import json

from pivotrl.demo.desk_tools import ARGUMENTS
from pivotrl.demo.tasks import Request, Task, why_not
from pivotrl.demo.world import Desk

KINDS = ("ask", "find", "get", "act", "refuse", "reply")
"""Kinds of assistant turns, as `expert_turn` names them."""

DONE = "Done. Anything else?"
HUMAN = "A human will help. Anything else?"
WHO = "Who are you?"


def call(name: str, *values: str) -> dict:
    """A function_call item with the tool's arguments in order."""
    arguments = dict(zip(ARGUMENTS[name], values, strict=True))
    return {"type": "function_call", "name": name, "arguments": json.dumps(arguments)}


def say(content: str) -> dict:
    """A message item."""
    return {"type": "message", "content": content}


def carry_out(request: Request, order_id: str) -> dict:
    """The call that does what `request` asks, on `order_id` ("check" only reads)."""
    tool = {"cancel": "cancel_order", "change": "change_city", "refund": "refund", "check": "get_order"}[request.kind]
    return call(tool, order_id) if request.kind == "check" else call(tool, order_id, request.value)


def expert_turn(desk: Desk) -> tuple[str, dict]:
    """The right next turn from the desk's real state, also after mistakes -> (kind of turn, item)."""
    request = desk.request
    if not desk.introduced:
        return "ask", say(WHO)
    if not desk.identified:
        return "find", call("find_user", desk.task.user_id)
    if desk.handled:
        return "reply", say(DONE if desk.handled == "done" else HUMAN)
    if request.order_id not in desk.seen:
        return "get", call("get_order", request.order_id)
    order = desk.outcome.orders[request.order_id]
    why = why_not(request, order, desk.task.user_id)
    if why:
        return "refuse", call("transfer", why)
    if request.kind == "check":
        return "reply", say(f"It is {order.status}. Anything else?")
    return "act", carry_out(request, order.order_id)


def solve(task: Task) -> Desk:
    """Play the expert to the end."""
    desk = Desk(task)
    while not desk.done:
        desk.step([expert_turn(desk)[1]])
    return desk


def success(desk: Desk) -> bool:
    """Whether a dialog did the whole task: the user left satisfied, no rule was broken, and the orders and transfers
    are those that the expert leaves behind."""
    if not desk.satisfied or desk.outcome.violations:
        return False
    return desk.outcome == solve(desk.task).outcome
