"""The desk: the expert solves it, the policy binds, and nothing a model writes breaks it."""

import json
import random

import pytest

from pivotrl.demo.expert import call, expert_turn, say, solve, success
from pivotrl.demo.noise import NOISE, mistake, play
from pivotrl.demo.tasks import Order, Request, Task, make_task, why_not
from pivotrl.demo.world import MAX_TURNS, Desk

ORDERS = (
    Order("w10", "u10", "lamp", "pending", "oslo", "card"),
    Order("w11", "u10", "rug", "shipped", "rome", "gift"),
    Order("w12", "u11", "fan", "pending", "lima", "bank"),
)


def desk_for(*requests: Request, introduces: bool = True) -> Desk:
    return Desk(Task("test", "u10", ORDERS, requests, introduces))


def cancel(order_id: str) -> Request:
    return Request("cancel", order_id, "late")


def play_items(desk: Desk, *items: dict) -> Desk:
    for item in items:
        desk.step([item])
    return desk


def test_expert_solves_every_task_in_3_to_8_turns():
    desks = [solve(make_task("test", index)) for index in range(500)]
    assert all(success(desk) for desk in desks)
    assert {desk.turns for desk in desks} == {3, 4, 5, 6, 7, 8}


def test_tasks_cover_every_kind_of_turn_request_and_refusal():
    tasks = [make_task("test", index) for index in range(300)]
    assert {kind for task in tasks for _, kind in play(task)[1]} == {"ask", "find", "get", "act", "refuse", "reply"}
    assert {request.kind for task in tasks for request in task.requests} == {"cancel", "change", "refund", "check"}
    whys = {why for task in tasks for _, why in solve(task).outcome.transfers}
    assert whys == {"owner", "status", "method"}


def test_policy_by_hand():
    pending, shipped, foreign = ORDERS
    assert why_not(cancel("w10"), pending, "u10") is None
    assert why_not(cancel("w11"), shipped, "u10") == "status"
    assert why_not(cancel("w12"), foreign, "u10") == "owner"
    delivered = Order("w13", "u10", "mug", "delivered", "oslo", "card")
    assert why_not(Request("refund", "w13", "card"), delivered, "u10") is None
    assert why_not(Request("refund", "w13", "gift"), delivered, "u10") == "method"
    assert why_not(Request("refund", "w10", "card"), pending, "u10") == "status"


def test_the_right_way_by_hand():
    steps = (call("find_user", "u10"), call("get_order", "w10"), call("cancel_order", "w10", "late"), say("ok"))
    desk = play_items(desk_for(cancel("w10")), *steps)
    assert desk.done and success(desk)
    assert desk.outcome.orders["w10"].status == "cancelled late"


FIND, LOOK, ACT = call("find_user", "u10"), call("get_order", "w10"), call("cancel_order", "w10", "late")
BROKEN = {
    "did not look": (FIND, ACT),
    "guessed another user": (call("find_user", "u11"), FIND, LOOK, ACT),
    "wrong reason": (FIND, LOOK, call("cancel_order", "w10", "broken")),
    "said done, did nothing": (FIND, LOOK),
    "needless human": (FIND, LOOK, call("transfer", "status")),
    "human on top": (FIND, LOOK, ACT, call("transfer", "status")),
}


@pytest.mark.parametrize("steps", BROKEN.values(), ids=BROKEN)
def test_a_broken_policy_loses_the_task(steps):
    desk = play_items(desk_for(cancel("w10")), *steps, say("Done."))
    assert desk.done and desk.satisfied
    assert not success(desk)


@pytest.mark.parametrize("order_id", ["w11", "w12"])
def test_forbidden_orders_need_a_human(order_id):
    why = {"w11": "status", "w12": "owner"}[order_id]
    start = (call("find_user", "u10"), call("get_order", order_id))
    forbidden = play_items(desk_for(cancel(order_id)), *start, call("cancel_order", order_id, "late"), say("ok"))
    wrong = play_items(desk_for(cancel(order_id)), *start, call("transfer", "method"), say("ok"))
    right = play_items(desk_for(cancel(order_id)), *start, call("transfer", why), say("ok"))
    assert [success(desk) for desk in (forbidden, wrong, right)] == [False, False, True]


def test_strangers_orders_stay_closed_and_unchanged():
    desk = play_items(desk_for(cancel("w12")), call("find_user", "u10"), call("get_order", "w12"))
    assert desk.messages[-1]["content"] == "error not in this account"
    desk.step([call("cancel_order", "w12", "late")])
    assert desk.outcome.orders["w12"].status == "pending"


def test_a_question_is_answered_only_after_a_look():
    steps = (FIND, LOOK, say("It is pending."))
    asked = Request("check", "w10", "")
    assert success(play_items(desk_for(asked), *steps))
    assert not success(play_items(desk_for(asked), FIND, say("It is pending.")))
    assert not success(play_items(desk_for(asked), say("It is pending.")))


def test_nothing_is_read_before_the_user_is_found():
    desk = play_items(desk_for(cancel("w10")), call("get_order", "w10"))
    assert desk.messages[-1]["content"].startswith("error")
    assert not desk.seen


def test_the_user_answers_who_they_are_and_goes_on():
    desk = desk_for(cancel("w10"), cancel("w11"), introduces=False)
    assert "u10" not in desk.messages[1]["content"]
    desk.step([say("Who?")])
    assert desk.messages[-1] == {"role": "user", "content": "I am u10"}
    desk.step([say("anything")])
    assert desk.messages[-1]["content"] == "Next Cancel order w11 because late"


def test_the_user_gives_up():
    desk = desk_for(cancel("w10"))
    while not desk.done:
        desk.step([call("get_order", "w10")])
    assert desk.turns == MAX_TURNS and not success(desk)
    with pytest.raises(AssertionError):
        desk.step([say("hello")])


HOSTILE = [
    [],
    [None, 7, "text", []],
    [{"type": "nonsense"}],
    [{}],
    [{"type": "message"}],
    [{"type": "message", "content": 5}],
    [{"type": "message", "content": "\ud800 lone surrogate"}],
    [{"type": "function_call"}],
    [{"type": "function_call", "name": None, "arguments": None}],
    [{"type": "function_call", "name": ["find_user"], "arguments": "{}"}],
    [{"type": "function_call", "name": "\udfff" * 500, "arguments": "{}"}],
    [{"type": "function_call", "name": "rm_rf", "arguments": "{}"}],
    [{"type": "function_call", "name": "find_user", "arguments": "{}"}],
    [{"type": "function_call", "name": "find_user", "arguments": "not json"}],
    [{"type": "function_call", "name": "find_user", "arguments": "[1, 2]"}],
    [{"type": "function_call", "name": "find_user", "arguments": "null"}],
    [{"type": "function_call", "name": "find_user", "arguments": 3.5}],
    [{"type": "function_call", "name": "find_user", "arguments": object()}],
    [{"type": "function_call", "name": "find_user", "arguments": '{"user_id": 17}'}],
    [{"type": "function_call", "name": "find_user", "arguments": '{"user_id": ["u10"]}'}],
    [{"type": "function_call", "name": "find_user", "arguments": '{"user_id": "\\ud800"}'}],
    [{"type": "function_call", "name": "find_user", "arguments": '{"user_id": "u10", "more": "x"}'}],
    [{"type": "function_call", "name": "get_order", "arguments": '{"order_id": {"$ne": ""}}'}],
    [{"type": "function_call", "name": "transfer", "arguments": '{"why": NaN}'}],
    [{"type": "function_call", "name": "transfer", "arguments": "[" * 100_000}],
    [{"type": "function_call", "name": "transfer", "arguments": '{"why":' * 2_000 + "1" + "}" * 2_000}],
    [{"type": "function_call", "name": "transfer", "arguments": "9" * 10_000}],
    [{"type": "function_call", "name": "get_order", "arguments": '{"order_id": "__class__"}'}] * 5,
]


@pytest.mark.parametrize("number", range(len(HOSTILE)))
def test_hostile_turns_get_an_answer_and_never_an_exception(number):
    for found in (False, True):
        desk = desk_for(cancel("w10"), cancel("w11"))
        if found:
            desk.step([call("find_user", "u10")])
        before = dict(desk.outcome.orders)
        desk.step(HOSTILE[number])
        assert desk.outcome.orders == before and not desk.outcome.transfers
        for message in desk.messages:
            message["content"].encode("utf-8")
            for called in message.get("tool_calls", ()):
                assert isinstance(json.loads(called["function"]["arguments"]), dict)
                called["function"]["arguments"].encode("utf-8")
        if any(isinstance(item, dict) and item.get("type") == "function_call" for item in HOSTILE[number]):
            assert desk.messages[-1]["role"] == "tool" and desk.messages[-1]["content"].startswith("error")
        else:
            assert desk.messages[-1]["role"] == "user"


def test_calls_of_one_turn_are_all_run():
    desk = desk_for(cancel("w10"))
    desk.step([say("One moment"), call("find_user", "u10"), call("get_order", "w10")])
    assert [message["role"] for message in desk.messages[-3:]] == ["assistant", "tool", "tool"]
    assert desk.messages[-1]["content"] == "lamp pending city oslo paid card"
    assert desk.turns == 1


def test_mistakes_are_mistakes_and_logs_recover():
    """No mistake equals the expert's turn for the verifier; noise lowers success and leaves some."""
    rng = random.Random(0)
    solved = 0
    for index in range(300):
        desk = Desk(make_task("noise", index))
        while not desk.done:
            kind, right = expert_turn(desk)
            wrong = mistake(desk, kind, rng)
            assert wrong != right, kind
            assert wrong["type"] == "function_call" or right["type"] == "function_call", kind
            desk.step([wrong if rng.random() < NOISE[kind] else right])
        solved += success(desk)
    assert 0.02 < solved / 300 < 0.4
