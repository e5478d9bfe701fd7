import json
import threading
import time

import pytest

from pivotrl.verifiers.attempt import Attempt
from pivotrl.verifiers.base import VerifierConfig
from pivotrl.verifiers.judge.endpoint import JudgeUnreachable
from pivotrl.verifiers.judge.verifier import JudgeVerifier
from pivotrl.verifiers.registry import build_verifier
from tests.verifiers.judge.stub import actions, always, completion, judge, verdict

TOOLS = [{"type": "function", "function": {"name": name, "parameters": {}}} for name in ("ls", "list_dir")]


def call(arguments, name="ls"):
    text = arguments if isinstance(arguments, str) else json.dumps(arguments)
    return {"type": "function_call", "name": name, "arguments": text}


def message(text):
    return {"type": "message", "content": text}


EXPERT = call({"path": "/a"})
OTHER = Attempt(EXPERT, [call({"dir": "/a"}, "list_dir")], tools=TOOLS)


def verifier(stub, **params):
    params = {"endpoint": stub.endpoint, "model": "m", "retries": 0, **params}
    return build_verifier(VerifierConfig(name="judge", params=params))


def test_both_orders_are_asked_and_must_agree():
    with judge(always("SAME")) as stub:
        found = verifier(stub).verify(OTHER)
        assert (found.reward, found.reason) == (1, "judge_same")
        expected, actual = (
            {"calls": [{"arguments": {"path": "/a"}, "tool": "ls"}]},
            {"calls": [{"arguments": {"dir": "/a"}, "tool": "list_dir"}]},
        )
        assert sorted(map(str, map(actions, stub.prompts))) == sorted(
            map(str, [(expected, actual), (actual, expected)])
        )
    with judge(always("DIFFERENT")) as stub:
        found = verifier(stub).verify(OTHER)
        assert (found.reward, found.reason) == (0, "judge_different")
    # A judge that likes what it reads first.
    with judge(lambda prompt: verdict(prompt, "SAME" if "path" in str(actions(prompt)[0]) else "DIFFERENT")) as stub:
        found = verifier(stub).verify(OTHER)
        assert (found.reward, found.reason) == (0, "judge_disagrees")
        assert verifier(stub, both_orders=False).verify(OTHER).reward == 1
        assert verifier(stub).verify(OTHER, {"both_orders": False}).reward == 1
        assert len(stub.prompts) == 4


@pytest.mark.parametrize(
    "items,reason",
    [
        ([], "no_action"),
        ([message("I listed it.")], "message_where_call_expected"),
        ([call({"path": "/b"}, "rm")], "other_tool"),
        ([call({"path": "/b"}, None)], "other_tool"),
        ([call('{"path": ')], "arguments_not_json"),
        ([call('["/a"]')], "other_type"),
        ([call({"path": "/b"})] * 65, "number_of_calls"),
        ([call({"path": "/b" * 20_000})], "too_long"),
        ([call('{"path": ' + "[" * 5000 + "]" * 5000 + "}")], "arguments_not_json"),
        ([call('{ "path" : "\\u002fa" }')], "equal"),
    ],
)
def test_what_needs_no_judge_is_not_asked(items, reason):
    with judge(always("SAME")) as stub:
        found = verifier(stub).verify(Attempt(EXPERT, items, tools=TOOLS))
        assert (found.reward, found.reason) == (reason == "equal", reason)
        assert not stub.prompts


HOSTILE = [
    call("[" * 200_000 + "]" * 200_000),
    call('{"a": ' + "9" * 100_000 + "}"),
    call('{"a": NaN, "b": 1e999, "c": "\\ud800", "d": "\ud800"}'),
    call('{"path": "' + "word " * 2_000_000 + '"}'),
    call("\0"),
    {"type": "function_call", "name": ["ls"], "arguments": {"path": "/a"}},
    {"type": "function_call", "name": "ls\ud800", "arguments": None},
    {"type": "message", "content": None},
    {"type": "message", "content": "\ud800 " + "y" * 10_000_000},
    {"type": 1},
    {},
]


@pytest.mark.parametrize("expert", [EXPERT, message("Done."), {"type": "function_call_batch", "calls": [EXPERT] * 2}])
def test_hostile_output_gets_a_verdict_soon(expert):
    judging = JudgeVerifier({"endpoint": "engine"})
    judging.attach(lambda prompts, max_tokens: [verdict(prompt, "SAME") for prompt in prompts])
    odd = {"tools": [None, {"function": {"name": 1}}], "messages": [{"role": "user", "content": 3}, None, {"role": []}]}
    start = time.perf_counter()
    for item in HOSTILE:
        found = judging.verify(Attempt(expert, [item], **odd))
        assert found.reward == 0 or found.reason == "judge_same"
    assert time.perf_counter() - start < 10


def test_messages():
    with judge(always("SAME")) as stub:
        judging = verifier(stub)
        history = [{"role": "user", "content": "x" * 9000}, {"role": "assistant", "content": "secret"}]
        history += [{"role": "tool", "content": [{"type": "text", "text": "42 rows"}]}]
        assert judging.verify(Attempt(message("Done."), [message("All done!")], messages=history)).reward == 1
        assert "42 rows" in stub.prompts[0]
        assert "secret" not in stub.prompts[0]
        assert len(stub.prompts[0]) < 9000
        assert judging.verify(Attempt(message("Done."), [message(" Done.\n")])).reason == "equal"
        assert judging.verify(Attempt(message("Done."), [message(" \u200b\n")])).reason == "empty_message"
        assert judging.verify(Attempt(message("Done."), [EXPERT])).reason == "call_where_message_expected"
        assert len(stub.prompts) == 2


def test_many_are_asked_at_a_time_once_each_and_answered_in_order():
    together, most, lock = 0, 0, threading.Lock()

    def reply(prompt):
        nonlocal together, most
        with lock:
            together += 1
            most = max(most, together)
        time.sleep(0.05)
        with lock:
            together -= 1
        return verdict(prompt, "SAME" if '"/even' in str(actions(prompt)).replace("'", '"') else "DIFFERENT")

    with judge(reply) as stub:
        attempts = [Attempt(EXPERT, [call({"path": f"/{'odd' if n % 2 else 'even'}{n}"})]) for n in range(12)] * 3
        judging = verifier(stub, concurrency=4, price_in=2.0, price_out=10.0)
        found = judging.verify_all([(attempt, None) for attempt in attempts])
        assert [one.reward for one in found] == [1, 0] * 18
        assert len(stub.prompts) == 24  # 12 different samples in two orders
        assert 2 <= most <= 4
        usage = judging.usage()
        assert usage.pop("price") == pytest.approx((24 * 100 * 2 + 24 * 10 * 10) / 1e6)
        assert usage == {"questions": 24, "cache_hits": 0, "prompt_tokens": 2400, "completion_tokens": 240}


def test_a_second_run_finds_the_verdicts_on_disk(tmp_path):
    with judge(always("SAME")) as stub:
        first = verifier(stub, cache=str(tmp_path / "kept"))
        assert first.verify(OTHER).reason == "judge_same"
        first.close()
        again = verifier(stub, cache=str(tmp_path / "kept"))
        assert again.verify(OTHER).reason == "judge_same"
        assert len(stub.prompts) == 2
        assert again.usage() == {
            "questions": 0,
            "cache_hits": 2,
            "prompt_tokens": 0,
            "completion_tokens": 0,
            "price": 0,
        }
        for other in ({"model": "n"}, {"rubric": "Paths matter."}, {"max_tokens": 9}, {"guided": True}):
            asked = len(stub.prompts)
            verifier(stub, cache=str(tmp_path / "kept"), **other).verify(OTHER)
            assert len(stub.prompts) == asked + 2
        # Another run's secret, but the same question: what is kept does not depend on the nonce.
        alone = verifier(stub)
        alone.verify(OTHER)
        assert stub.prompts[-1] not in stub.prompts[:2]


def test_a_verdict_that_is_cut_off_is_none():
    with judge(lambda prompt: (200, completion(verdict(prompt, "SAME"), "length"))) as stub:
        assert verifier(stub).verify(OTHER).reason == "judge_unclear"


def test_a_question_that_does_not_fit_is_no_fault_and_is_not_kept(tmp_path):
    body = json.dumps({"error": {"message": "This model's maximum context length is 512 tokens."}}).encode()
    with judge(lambda prompt: (400, body)) as stub:
        judging = verifier(stub, cache=str(tmp_path))
        assert judging.verify(OTHER).reason == "judge_unclear"
        assert judging.verify(OTHER).reason == "judge_unclear"
        assert len(stub.prompts) == 4


def test_the_key_is_read_from_the_environment(monkeypatch):
    with judge(always("SAME")) as stub:
        with pytest.raises(ValueError, match="'NO_SUCH_KEY' is not set; export"):
            verifier(stub, api_key_env="NO_SUCH_KEY")
        monkeypatch.setenv("JUDGE_KEY", "s3cret\nx: y")
        with pytest.raises(ValueError, match="is no key") as fault:
            verifier(stub, api_key_env="JUDGE_KEY")
        assert "s3cret" not in str(fault.value)
        monkeypatch.setenv("JUDGE_KEY", "s3cret\n")
        judging = verifier(stub, api_key_env="JUDGE_KEY", guided=True)
        judging.verify(OTHER)
        assert stub.headers[0]["Authorization"] == "Bearer s3cret"
        assert stub.bodies[0]["structured_outputs"]["choice"] == [
            verdict(stub.prompts[0], w) for w in ("SAME", "DIFFERENT")
        ]
        assert "s3cret" not in repr(vars(judging))


@pytest.mark.parametrize(
    "name,value", [("endpoint", "http://evil.example/v1"), ("api_key_env", "AWS_SECRET"), ("cache", "/x")]
)
def test_a_row_does_not_decide_where_questions_go(name, value):
    with (
        judge(always("SAME")) as stub,
        pytest.raises(ValueError, match=f"verifier.params.{name}: a row may not set it"),
    ):
        verifier(stub).verify(OTHER, {name: value})


@pytest.mark.parametrize(
    "params,fault",
    [
        ({}, "endpoint: Field required"),
        ({"endpoint": "ftp://x", "model": "m"}, "write http://host:port/v1, or engine"),
        ({"endpoint": "http://x/v1"}, "model is empty"),
        ({"endpoint": "engine", "cache": "/tmp/x"}, "write null"),
        ({"endpoint": "engine", "guided": True}, "write false"),
        ({"endpoint": "http://x:y/v1", "model": "m"}, "is no URL"),
        ({"endpoint": "http://x/v1", "model": "m", "api_key": "k"}, "api_key: Extra inputs"),
    ],
)
def test_unusable_parameters_name_the_remedy(params, fault):
    with pytest.raises(ValueError, match=fault):
        JudgeVerifier(params)


def test_the_engine_must_be_attached():
    judging = JudgeVerifier({"endpoint": "engine"})
    with pytest.raises(ValueError, match="`engine` has no engine here"):
        judging.verify(OTHER)
    asked = []

    def ask(prompts, max_tokens):
        assert max_tokens == 1024
        asked.extend(prompts)
        return [verdict(prompt, "SAME") for prompt in prompts[:-1]] + ["SAME"]

    judging.attach(ask)
    second = Attempt(EXPERT, [call({"path": "/z"})])
    assert [one.reason for one in judging.verify_all([(OTHER, None), (second, None)])] == [
        "judge_same",
        "judge_unclear",
    ]
    assert len(asked) == 4
    assert judging.usage()["questions"] == 4


def test_an_unreachable_judge_stops_the_run():
    with judge(always("SAME")) as stub:
        gone = verifier(stub)
    with pytest.raises(JudgeUnreachable, match="start the server, or correct"):
        gone.verify_all([(OTHER, None)] * 3)
