import time

import pytest

from pivotrl.verifiers.judge.endpoint import Endpoint, JudgeUnreachable
from pivotrl.verifiers.judge.params import JudgeParams
from tests.verifiers.judge.stub import completion, judge


def endpoint(stub, **params):
    return Endpoint(JudgeParams(endpoint=stub.endpoint, model="m", **{"retries": 3, **params}), first_wait=0.01)


@pytest.mark.parametrize(
    "fault", [(429, b"slow down"), (500, b""), (503, b"{}"), (200, b"<html>"), (200, b'{"choices": []}')]
)
def test_passing_faults_are_tried_again(fault):
    replies = [fault, fault, (200, completion("yes"))]
    with judge(lambda prompt: replies.pop(0)) as stub:
        answer = endpoint(stub).ask("p", ("a", "b"))
        assert (answer.text, answer.prompt_tokens, answer.completion_tokens) == ("yes", 100, 10)
        assert len(stub.prompts) == 3
        assert stub.bodies[0] == {
            "model": "m",
            "messages": [{"role": "user", "content": "p"}],
            "max_tokens": 1024,
            "temperature": 0.0,
        }


@pytest.mark.parametrize(
    "status,body,tries,remedy",
    [
        (401, b"no key", 1, "api_key_env"),
        (404, b"no model", 1, "verifier.params.model"),
        (400, b"bad request", 1, "what the server says"),
        (302, b"", 1, "what the server says"),
        (429, b"slow down", 4, "concurrency"),
        (500, b"broken", 4, "server's log"),
        (200, b"[" * 100_000, 4, "OpenAI-compatible"),
        (200, b'{"choices": [{"message": {"content": {}}}]}'.replace(b"{}", b'{"a": 1}'), 4, "OpenAI-compatible"),
    ],
)
def test_lasting_faults_name_the_endpoint_and_the_remedy(status, body, tries, remedy):
    with judge(lambda prompt: (status, body)) as stub:
        with pytest.raises(JudgeUnreachable, match=remedy) as fault:
            endpoint(stub).ask("p", ("a", "b"))
        assert stub.endpoint in str(fault.value)
        assert len(stub.prompts) == tries
        assert len(str(fault.value)) < 700


def test_a_late_answer_is_tried_again():
    waits = [0.6, 0.0]

    def reply(prompt):
        time.sleep(waits.pop(0))
        return "yes"

    with judge(reply) as stub:
        assert endpoint(stub, timeout=0.3).ask("p", ("a", "b")).text == "yes"
        assert len(stub.prompts) == 2


def test_an_answer_that_drips_is_late():
    def drip():
        for letter in completion("yes" * 1000):
            time.sleep(0.02)
            yield bytes([letter])

    class Dripping(list):
        def __len__(self):
            return len(completion("yes" * 1000))

        def __iter__(self):
            return drip()

    with judge(lambda prompt: (200, Dripping())) as stub:
        start = time.perf_counter()
        with pytest.raises(JudgeUnreachable, match="no whole answer within"):
            endpoint(stub, timeout=0.3, retries=1).ask("p", ("a", "b"))
        assert time.perf_counter() - start < 3


def test_no_content_is_an_empty_answer():
    with judge(lambda prompt: (200, completion(None))) as stub:
        assert endpoint(stub).ask("p", ("a", "b")).text == ""


def test_a_question_that_is_refused_for_its_content_does_not_stop_a_run():
    replies = [(400, b'{"error": {"code": "content_filter"}}'), (200, completion("yes")), (400, b"odd"), (401, b"")]
    with judge(lambda prompt: replies.pop(0)) as stub:
        asked = endpoint(stub)
        assert asked.ask("p", ("a", "b")).refused
        assert asked.ask("p", ("a", "b")).text == "yes"
        assert asked.ask("p", ("a", "b")).refused  # it answers other questions
        with pytest.raises(JudgeUnreachable, match="HTTP 401"):
            asked.ask("p", ("a", "b"))
