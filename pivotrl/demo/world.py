"""The customer desk as an executable world: database, tools, scripted user, end-to-end success.

An agent's turn comes in as Responses-API items, as `ActionParser` gives them; the dialog goes out as OpenAI chat
messages. The tools do what they are told: it is the policy of the system prompt that forbids, and breaking it loses
the task. Whatever a model writes is answered with a message, never with an exception.
"""

import json
from dataclasses import dataclass, field, replace

from pivotrl.demo.desk_tools import ARGUMENTS, SYSTEM, TOOLS
from pivotrl.demo.tasks import Order, Task

MAX_TURNS = 12
"""Assistant turns after which the user gives up."""

_NAME_LIMIT = 40


@dataclass
class Outcome:
    """What a dialog did to the world. `transfers` holds (request index, why); `violations` names broken rules."""

    orders: dict[str, Order]
    transfers: list[tuple[int, str]] = field(default_factory=list)
    violations: list[str] = field(default_factory=list)


class Desk:
    """One dialog about one task.

    `messages` (OpenAI chat form, tool-call arguments as JSON strings) and `tools` are what the agent sees;
    `done` says that the dialog is over. The remaining attributes are the world's state, which the expert reads.
    """

    tools = TOOLS

    def __init__(self, task: Task):
        self.task = task
        self.outcome = Outcome({order.order_id: order for order in task.orders})
        self.request_index = 0
        self.introduced = task.introduces
        self.identified = False
        self.seen: set[str] = set()
        self.handled: str | None = None
        self.turns = 0
        self.satisfied = self.hung_up = False
        hello = f"I am {task.user_id} . " if task.introduces else ""
        self.messages: list[dict] = [
            {"role": "system", "content": SYSTEM},
            {"role": "user", "content": hello + self.request.say()},
        ]

    @property
    def request(self):
        """The request that the user is on."""
        return self.task.requests[self.request_index]

    @property
    def done(self) -> bool:
        """True once the user is satisfied or out of patience."""
        return self.satisfied or self.hung_up or self.turns >= MAX_TURNS

    def hang_up(self) -> None:
        """End the dialog unsatisfied: what its host does when it outgrows the model's context."""
        self.hung_up = True

    def step(self, items: list[dict]) -> None:
        """Play one assistant turn and the world's answer to it.

        `items`: `{"type": "function_call", "name", "arguments"}` or `{"type": "message", "content"}`; anything else in
        the list is ignored. Every call is run, in order; a turn without a call is a message, and moves the user on.
        """
        assert not self.done, "the dialog is over"
        self.turns += 1
        items = [item for item in items if isinstance(item, dict)]
        content = " ".join(_clean(i["content"]) for i in items if isinstance(i.get("content"), str)).strip()
        calls = [_read_call(item) for item in items if item.get("type") == "function_call"]
        message: dict = {"role": "assistant", "content": content}
        self.messages.append(message)
        if not calls:
            self._user_answers()
            return
        message["tool_calls"] = []
        for number, (name, arguments, error) in enumerate(calls):
            call_id = f"call_{self.turns}_{number}"
            function = {"name": name, "arguments": json.dumps(arguments, ensure_ascii=False)}
            message["tool_calls"].append({"id": call_id, "type": "function", "function": function})
            answer = error or self._run(name, arguments)
            self.messages.append({"role": "tool", "tool_call_id": call_id, "content": answer})

    def _user_answers(self) -> None:
        """The scripted user: says who they are when asked, else goes on to the next request, else leaves."""
        if not self.introduced:
            self.introduced = True
            self.messages.append({"role": "user", "content": f"I am {self.task.user_id}"})
            return
        if self.request.kind == "check" and self.request.order_id not in self.seen:
            self.outcome.violations.append("an answer about an order that was not looked at")
        if self.request_index + 1 < len(self.task.requests):
            self.request_index += 1
            self.handled = None
            self.messages.append({"role": "user", "content": "Next " + self.request.say()})
        else:
            self.satisfied = True

    def _run(self, name: str, arguments: dict) -> str:
        """Run one well-formed call -> the text that the agent gets."""
        if name == "find_user":
            return self._find_user(arguments["user_id"])
        if name == "transfer":
            self.outcome.transfers.append((self.request_index, arguments["why"]))
            self.handled = "human"
            return "ok"
        if not self.identified:
            return "error find the user first"
        order = self.outcome.orders.get(arguments["order_id"])
        if name == "get_order":
            self.seen.add(arguments["order_id"])
        if order is None or order.owner != self.task.user_id:
            return "error not in this account"
        if name == "get_order":
            return f"{order.item} {order.status} city {order.city} paid {order.paid}"
        if order.order_id not in self.seen:
            self.outcome.violations.append(f"{name} on an order that was not looked at")
        change = {
            "cancel_order": lambda: {"status": f"cancelled {arguments['reason']}"},
            "change_city": lambda: {"city": arguments["city"]},
            "refund": lambda: {"status": f"refunded {arguments['method']}"},
        }[name]()
        self.outcome.orders[order.order_id] = replace(order, **change)
        self.handled = "done"
        return "ok"

    def _find_user(self, user_id: str) -> str:
        """Open the caller's account. Guessing an id that nobody said breaks the policy."""
        if not self.introduced or user_id != self.task.user_id:
            self.outcome.violations.append("find_user with an id that the user did not say")
            return "error no such user"
        self.identified = True
        own = [order for order in self.task.orders if order.owner == user_id]
        return " ".join(f"{order.item} {order.order_id}" for order in own)


def _clean(text: str) -> str:
    """The text without lone surrogates, which no tokenizer can encode."""
    return text.encode("utf-8", "replace").decode("utf-8")


def _read_call(item: dict) -> tuple[str, dict, str | None]:
    """A function_call item -> (name, arguments for the history, error or None).

    Arguments that are no JSON object enter the history as {}, because a chat template can render nothing else.
    """
    name = item.get("name")
    if not isinstance(name, str) or not name:
        return "unknown", {}, "error the call has no tool name"
    name = _clean(name)[:_NAME_LIMIT]
    arguments = item.get("arguments")
    try:
        arguments = json.loads(arguments) if isinstance(arguments, str) else arguments
        arguments = json.loads(_clean(json.dumps(arguments, ensure_ascii=False)))
    except (ValueError, TypeError, RecursionError):
        return name, {}, "error the arguments are not JSON"
    if not isinstance(arguments, dict):
        return name, {}, "error the arguments are not an object"
    if name not in ARGUMENTS:
        return name, arguments, "error no such tool"
    if set(arguments) != set(ARGUMENTS[name]):
        return name, arguments, f"error {name} takes " + " and ".join(ARGUMENTS[name])
    if not all(isinstance(value, str) for value in arguments.values()):
        return name, arguments, "error every argument is a string"
    return name, arguments, None
