"""Workers: the same verdicts in the same order, and no verdict that holds up or ends the others."""

import json
import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import date
from pathlib import Path

import pytest

from pivotrl.verifiers import child, clock, pool
from pivotrl.verifiers.attempt import Attempt
from pivotrl.verifiers.base import Verdict, VerifierConfig
from pivotrl.verifiers.pool import VerdictPool
from pivotrl.verifiers.registry import build_verifier

REPOSITORY = Path(__file__).resolve().parents[2]
UNRULY = VerifierConfig(name="tests.verifiers.unruly:Unruly")
EXPERT = {"type": "message", "content": "right"}
FINE = ["fine", "good", "well"]


def job(text, items=("right",), params=None):
    return Attempt(EXPERT, list(items), text), params


def calls(count):
    """Attempts at a few turns with histories of their own, several in a row at each."""
    for turn in range(0, count, 8):
        expert = {"type": "function_call", "name": "f", "arguments": json.dumps({"a": turn, "s": "one two three"})}
        messages, metadata = [{"role": "user", "content": "x" * turn}], {"turn": turn}
        for sample in range(min(8, count - turn)):
            item = expert | {"arguments": json.dumps({"a": turn + sample % 2, "s": "one two three"})}
            yield Attempt(expert, [item], "é\ud800\udc00\x00\n", [], messages, metadata), None


def gone(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


@pytest.mark.parametrize("workers", [1, 2])
def test_verdicts_and_their_order_do_not_depend_on_the_workers(workers):
    config = VerifierConfig()
    jobs = list(calls(1003))
    verifier = build_verifier(config)
    expected = [verifier.verify(*one) for one in jobs]
    assert {verdict.reward for verdict in expected} == {0.0, 1.0}
    with VerdictPool(config, workers, 20.0) as judges:
        assert judges.judge(jobs) == expected
        assert judges.judge(jobs[5:20]) == expected[5:20]
        assert judges.judge([]) == []
        assert not judges.faults
    assert VerdictPool(config, 0, 20.0).judge(jobs) == expected


def test_threads_take_turns():
    """Else each would read the other's answers, and wait for its own for ever."""
    config, jobs = VerifierConfig(), list(calls(300))
    expected = [build_verifier(config).verify(*one) for one in jobs]
    with VerdictPool(config, 2, 20.0) as judges, ThreadPoolExecutor(2) as threads:
        found = threads.map(judges.judge, [jobs[index::4] for index in range(4)])
        assert list(found) == [expected[index::4] for index in range(4)]


@pytest.mark.parametrize(
    "text, reason, detail",
    [
        ("sleep", "time_limit", "no verdict in 0.5 s"),
        ("spin", "time_limit", "no verdict in 0.5 s"),
        ("spin_in_c", "time_limit", "no verdict in 0.5 s"),
        ("segfault", "crashed", "SIGSEGV"),
        ("die", "crashed", "exit code 3"),
        ("eat_memory", "verifier_error", "MemoryError"),
        ("raise", "verifier_error", "KeyError: "),
        ("value_error", "verifier_error", "ValueError: could not convert"),
        ("exit", "verifier_error", "SystemExit: 3"),
        ("wrong", "verifier_error", "a reward in [0, 1] was due, not Verdict(reward=2.0"),
        ("nan", "verifier_error", "a reward in [0, 1] was due"),
        ("none", "verifier_error", "a reason and a detail were due"),
        ("odd", "verifier_error", "a reward in [0, 1] was due, not 'a string'"),
        ("print", "said print", "5"),
        ("read", "said read", "4"),
    ],
)
def test_an_unruly_verdict_costs_its_own_row_only(text, reason, detail, unruly_pool):
    start = time.monotonic()
    before = unruly_pool.faults[reason]
    texts = [*FINE, text, *FINE]
    found = unruly_pool.judge([job(one) for one in texts])
    assert [verdict.reason for verdict in found] == [
        *(f"said {one}" for one in FINE),
        reason,
        *(f"said {one}" for one in FINE),
    ]
    assert detail in found[3].detail
    assert found[3].reward == float(reason.startswith("said"))
    assert time.monotonic() - start < 20, "neither the verdict nor its worker was waited for"
    if not reason.startswith("said"):
        assert unruly_pool.faults[reason] == before + 1


@pytest.fixture(scope="module")
def unruly_pool():
    with VerdictPool(UNRULY, 1, 0.5) as judges:
        yield judges


def test_others_do_not_wait_for_a_stuck_one(monkeypatch):
    order = []
    put = pool._Batch.put
    monkeypatch.setattr(pool._Batch, "put", lambda self, *found: (order.append(found[0]), put(self, *found)))
    with VerdictPool(UNRULY, 2, 1.0) as judges:
        judges.judge([job("fine")] * 4)
        order.clear()
        found = judges.judge([job("sleep"), *[job("fine")] * 300])
    assert found[0].reason == "time_limit" and {verdict.reason for verdict in found[1:]} == {"said fine"}
    assert order.index(0) >= 300 - pool.MOST_AHEAD, "only what its own worker had in hand came after it"


def test_several_stuck_in_a_row_are_each_given_up():
    with VerdictPool(UNRULY, 2, 0.3) as judges:
        found = judges.judge([job(text) for text in ["spin", "sleep", "fine", "die", "segfault", "raise", "fine"]])
    reasons = ["time_limit", "time_limit", "said fine", "crashed", "crashed", "verifier_error", "said fine"]
    assert [verdict.reason for verdict in found] == reasons


def test_a_rows_unusable_params_are_the_users_error_and_the_pool_lives_on():
    with VerdictPool(UNRULY, 1, 5.0) as judges:
        with pytest.raises(ValueError, match=r"verifier\.params\.treshold"):
            judges.judge([job("fine"), job("fine", params={"treshold": 1}), job("fine")])
        assert judges.judge([job("fine", ["wrong"]), job("value_error", params={"other": 1})])[0].reward == 0
    with pytest.raises(ValueError, match="closed"):
        judges.judge([job("fine")])


def test_an_unknown_verifier_is_found_at_once():
    with pytest.raises(ValueError, match=r"verifier\.name"):
        VerdictPool(VerifierConfig(name="magic"), 1, 2.0)


def test_params_that_cannot_be_sent_are_the_users_error():
    config = UNRULY.model_copy(update={"params": {"since": date(2024, 5, 1)}})
    with pytest.raises(ValueError, match=r"verifier\.params: .*date.*; write JSON values"):
        VerdictPool(config, 1, 2.0)
    assert VerdictPool(config, 0, 2.0).judge([job("fine")])[0].reward == 1


def test_a_worker_that_dies_while_it_is_sent_much_costs_one_verdict():
    texts = ["die" if index % 5 == 0 else "x" * 3_000_000 for index in range(15)]
    with VerdictPool(UNRULY, 2, 20.0) as judges:
        found = judges.judge([job(text, [text, "y" * 1_000_000]) for text in texts])
    assert [verdict.reason for verdict in found] == [
        "crashed" if text == "die" else "said " + "x" * 20 for text in texts
    ]


def test_a_worker_that_its_own_alarm_ended_was_too_late(monkeypatch):
    monkeypatch.setattr(child, "WALL", 0.5)
    monkeypatch.setattr(child.Child, "overdue", lambda self: False)
    with VerdictPool(UNRULY, 1, 1.0) as judges:
        found = judges.judge([job("fine"), job("spin_in_c"), job("fine")])
    assert [verdict.reason for verdict in found] == ["said fine", "time_limit", "said fine"]


def test_a_worker_that_cannot_start_is_an_error_not_a_verdict(monkeypatch):
    monkeypatch.setenv("UNRULY_POOL", str(os.getpid()))
    config = UNRULY.model_copy(update={"params": {"breaks_in_worker": True}})
    with VerdictPool(config, 1, 2.0) as judges, pytest.raises(RuntimeError, match="OSError: no such machine"):
        judges.judge([job("fine")])


def test_large_items_cross_both_ways_without_a_deadlock():
    texts = [letter * 10_000_000 for letter in "abc"] + ["small"] * 50
    with VerdictPool(UNRULY, 2, 20.0) as judges:
        found = judges.judge([job(text, [text]) for text in texts])
    assert [verdict.detail for verdict in found] == [str(len(text)) for text in texts]


def test_what_json_cannot_hold_is_judged_here():
    deep = []
    for _ in range(3000):
        deep = [deep]
    odd = [[b"bytes"], [10**5000], [deep], [{1, 2}], ["right"]]
    with VerdictPool(UNRULY, 1, 5.0) as judges:
        assert [verdict.reward for verdict in judges.judge([job("x", items) for items in odd])] == [0, 0, 0, 0, 1]


def test_text_crosses_exactly():
    # Two lone surrogates in a row must not become one character.
    texts = ["\ud83d\ude00", "\U0001f600", "\x00\n\r\u2028", '"\\']
    jobs = [
        (Attempt({"type": "message", "content": text}, [{"type": "message", "content": said}]), None)
        for text in texts
        for said in texts
    ]
    with VerdictPool(VerifierConfig(name="exact"), 1, 5.0) as judges:
        found = judges.judge(jobs)
    assert [verdict.reward for verdict in found] == [float(text == said) for text in texts for said in texts]


def test_nan_and_infinity_reach_the_verifier():
    items = ["right", float("nan"), float("inf"), -0.0]
    with VerdictPool(UNRULY, 1, 5.0) as judges:
        assert judges.judge([job("x", items)])[0].reward == 0


def test_workers_end_with_the_pool():
    judges = VerdictPool(UNRULY, 2, 5.0)
    judges.judge([job("fine")] * 10)
    pids = [one.pid for one in judges._children]
    assert len(pids) == 2 and not any(map(gone, pids))
    judges.close()
    assert all(map(gone, pids))
    judges.close()


def test_an_idle_worker_that_was_killed_is_replaced():
    with VerdictPool(UNRULY, 1, 5.0) as judges:
        judges.judge([job("fine")])
        (first,) = judges._children
        os.kill(first.pid, signal.SIGKILL)
        time.sleep(0.1)
        assert [verdict.reason for verdict in judges.judge([job("fine")] * 3)] == ["said fine"] * 3
        assert judges._children != [first] and not judges.faults


def test_a_worker_outlives_signals_but_not_its_pool():
    script = """
import sys, time
from pivotrl.verifiers.attempt import Attempt
from pivotrl.verifiers.base import VerifierConfig
from pivotrl.verifiers.pool import VerdictPool
judges = VerdictPool(VerifierConfig(), 1, 2.0)
expert = {"type": "message", "content": "x"}
judges.judge([(Attempt(expert, []), None)])
print(judges._children[0].pid, flush=True)
time.sleep(60)
"""
    parent = subprocess.Popen(
        [sys.executable, "-c", script],
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": str(REPOSITORY)},
    )
    worker = int(parent.stdout.readline())
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1):
        os.kill(worker, number)
    time.sleep(0.2)
    assert clock.process_state(worker)[0], "asleep, waiting for jobs"
    parent.kill()
    parent.wait()
    parent.stdout.close()
    deadline = time.monotonic() + 10
    while not gone(worker) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert gone(worker)


def test_a_worker_is_no_rank_of_the_run(monkeypatch):
    for name in ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "LOCAL_RANK", "TORCHELASTIC_RUN_ID"):
        monkeypatch.setenv(name, "1")
    monkeypatch.setenv("SOMETHING_ELSE", "1")
    with VerdictPool(UNRULY, 1, 5.0) as judges:
        judges.judge([job("fine")])
        with open(f"/proc/{judges._children[0].pid}/environ", "rb") as file:
            names = {entry.partition(b"=")[0].decode() for entry in file.read().split(b"\0")}
        fds = os.listdir(f"/proc/{judges._children[0].pid}/fd")
    assert "SOMETHING_ELSE" in names and not [name for name in names if name.startswith(child._OF_A_RANK)]
    assert len(fds) <= 6, "three streams and two pipes"


def test_the_limit_counts_running_and_sleeping_but_not_waiting_for_a_core(monkeypatch):
    state = {"asleep": False, "cpu": 0.0, "now": 0.0}
    monkeypatch.setattr(clock, "process_state", lambda pid: (state["asleep"], state["cpu"]))
    monkeypatch.setattr(clock.time, "monotonic", lambda: state["now"])
    watch = clock.Clock()
    assert watch.spent("first", 1) == (0, 0)
    state.update(now=5.0, cpu=0.01)  # the cores were others'
    assert watch.spent("first", 1) == pytest.approx((0.01, 5.0))
    state.update(now=6.0, cpu=1.01)
    assert watch.spent("first", 1) == pytest.approx((1.01, 6.0))
    state.update(now=6.05, asleep=True)
    assert watch.spent("first", 1) == pytest.approx((1.06, 6.05))
    state.update(now=60.0)  # whoever looks was kept waiting
    assert watch.spent("first", 1)[0] == pytest.approx(1.06 + 2 * clock.TICK)
    assert watch.spent("second", 1) == (0, 0)


def test_a_worker_that_keeps_too_much_memory_is_replaced_and_no_row_is_blamed(monkeypatch):
    # The worker's code, told to be content with nothing.
    monkeypatch.setenv("PYTHONPATH", "")
    texts = ["x" * 3_000_000] * 5
    code = "import pivotrl.verifiers.worker as w; w.KEPT_MEMORY = -2**40; raise SystemExit(w.main())"
    start = subprocess.Popen

    def popen(command, **options):
        return start([command[0], "-c", code], **options)

    monkeypatch.setattr(child.subprocess, "Popen", popen)
    with VerdictPool(UNRULY, 1, 10.0) as judges:
        found = judges.judge([job(text) for text in texts])
        assert [verdict.reason for verdict in found] == ["said " + "x" * 20] * 5
        assert not judges.faults


def test_the_pool_ends_its_workers_when_it_is_interrupted(monkeypatch):
    with VerdictPool(UNRULY, 1, 5.0) as judges:
        judges.judge([job("fine")])
        pid = judges._children[0].pid

        def interrupt(*_):
            raise KeyboardInterrupt

        monkeypatch.setattr(pool.VerdictPool, "_read", interrupt)
        with pytest.raises(KeyboardInterrupt):
            judges.judge([job("fine")] * 3)
        assert gone(pid)
        monkeypatch.undo()
        assert judges.judge([job("fine")]) == [Verdict(1.0, "said fine", "4")]
