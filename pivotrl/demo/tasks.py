"""Tasks of the customer desk: a small database and what the scripted user wants, all from one seed."""

import random
from dataclasses import dataclass

from pivotrl.demo.desk_tools import CITIES, ITEMS, METHODS, ORDER_IDS, REASONS, STATUSES, USER_IDS


@dataclass(frozen=True)
class Order:
    """One row of the database. `owner` is a user id."""

    order_id: str
    owner: str
    item: str
    status: str
    city: str
    paid: str


@dataclass(frozen=True)
class Request:
    """One wish of the user, who names the order by its id. `value` is a reason, city or method ("" for a "check")."""

    kind: str
    order_id: str
    value: str

    def say(self) -> str:
        """The user's words."""
        if self.kind == "cancel":
            return f"Cancel order {self.order_id} because {self.value}"
        if self.kind == "change":
            return f"Send order {self.order_id} to {self.value}"
        if self.kind == "refund":
            return f"Refund order {self.order_id} to {self.value}"
        return f"Where is order {self.order_id}"


@dataclass(frozen=True)
class Task:
    """A database and one or two requests. `introduces` says whether the user gives the user id unasked."""

    id: str
    user_id: str
    orders: tuple[Order, ...]
    requests: tuple[Request, ...]
    introduces: bool


def why_not(request: Request, order: Order, user_id: str) -> str | None:
    """What the policy says: None if allowed, else "owner", "status" or "method" (the first that applies)."""
    if order.owner != user_id:
        return "owner"
    if request.kind in ("cancel", "change"):
        return None if order.status == "pending" else "status"
    if request.kind == "refund":
        if order.status != "delivered":
            return "status"
        return None if request.value == order.paid else "method"
    return None


def make_task(seed: int | str, index: int = 0) -> Task:
    """Task number `index` of the stream `seed`. Streams of different seeds are independent.

    The account holds two orders; a stranger holds a third, which one request in ten asks about.
    """
    rng = random.Random(f"desk/{seed}/{index}")
    user_id, stranger = rng.sample(USER_IDS, 2)
    ids = rng.sample(ORDER_IDS, 3)
    items = rng.sample(ITEMS, 3)
    orders = {
        i: Order(
            i, user_id if n < 2 else stranger, items[n], rng.choice(STATUSES), rng.choice(CITIES), rng.choice(METHODS)
        )
        for n, i in enumerate(ids)
    }
    requests = []
    for order_id in rng.sample(ids[:2], rng.choice((1, 2))):
        if rng.random() < 0.1:
            order_id = ids[2]
        requests.append(_make_request(rng, orders, order_id))
    # A second question about the stranger's order would repeat the first: keep one.
    requests = requests[:1] if len({r.order_id for r in requests}) == 1 else requests
    return Task(f"desk-{seed}-{index}", user_id, tuple(orders.values()), tuple(requests), rng.random() < 0.75)


def _make_request(rng: random.Random, orders: dict[str, Order], order_id: str) -> Request:
    """One request about `order_id`; half the time the order is put in the status that allows it."""
    kind = rng.choice(("cancel", "change", "refund", "cancel", "change", "refund", "check"))
    order = orders[order_id]
    if rng.random() < 0.5 and kind != "check":
        status = "delivered" if kind == "refund" else "pending"
        order = orders[order_id] = Order(order_id, order.owner, order.item, status, order.city, order.paid)
    value = ""
    if kind == "cancel":
        value = rng.choice(REASONS)
    elif kind == "change":
        value = rng.choice([city for city in CITIES if city != order.city])
    elif kind == "refund":
        value = order.paid if rng.random() < 0.6 else rng.choice(METHODS)
    return Request(kind, order_id, value)
