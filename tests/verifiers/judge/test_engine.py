from types import SimpleNamespace

import pytest

from pivotrl.rollout.records import Sample
from pivotrl.verifiers.attempt import Attempt
from pivotrl.verifiers.judge.engine import ask_with_engine
from pivotrl.verifiers.judge.verifier import JudgeVerifier
from tests.verifiers.judge.stub import verdict


class Template:
    """Letters as tokens."""

    def encode(self, messages, tools):
        assert [message["role"] for message in messages] == ["user"]
        return [ord(letter) for letter in messages[0]["content"]]

    def decode(self, ids):
        return "".join(map(chr, ids))


class Engine:
    """Answers SAME; where a question says `ramble`, it never ends."""

    config = SimpleNamespace(max_model_len=8000, tensor=1)

    def __init__(self):
        self.requests = []

    def generate(self, requests):
        self.requests += requests
        prompts = ["".join(map(chr, request.prompt_ids)) for request in requests]
        return [
            [
                Sample(
                    [ord(letter) for letter in verdict(prompt, "SAME")], [], "length" if "ramble" in prompt else "stop"
                )
            ]
            for prompt in prompts
        ]


def test_the_runs_own_engine_judges():
    engine = Engine()
    judging = JudgeVerifier({"endpoint": "engine", "max_tokens": 100})
    judging.attach(ask_with_engine(engine, Template()))
    texts = ["Done!", "I ramble.", "long " * 2000, "Finished."]
    attempts = [
        Attempt({"type": "message", "content": "Done."}, [{"type": "message", "content": text}]) for text in texts
    ]
    found = judging.verify_all([(attempt, None) for attempt in attempts])
    assert [verdict.reason for verdict in found] == ["judge_same", "judge_unclear", "judge_unclear", "judge_same"]
    assert len(engine.requests) == 6
    usage = judging.usage()
    assert usage["questions"] == 8
    assert usage["completion_tokens"] == 6 * len("VERDICT-0123456789abcdef: SAME")
    assert usage["prompt_tokens"] == sum(len(request.prompt_ids) for request in engine.requests)
    assert {(request.n, request.temperature, request.max_tokens) for request in engine.requests} == {(1, 0.0, 100)}
    assert judging.verify(attempts[2]).reason == "judge_unclear"
    assert len(engine.requests) == 6  # nothing fits: the engine is not asked


def test_an_engine_of_several_ranks_is_refused_when_it_is_asked():
    engine = Engine()
    engine.config = SimpleNamespace(max_model_len=8000, tensor=2)
    judging = JudgeVerifier({"endpoint": "engine"})
    judging.attach(ask_with_engine(engine, Template()))
    said, done = ({"type": "message", "content": text} for text in ("Done!", "Done."))
    with pytest.raises(ValueError, match=r"rollout.tensor is 2: an engine of several ranks cannot be the judge"):
        judging.verify(Attempt(done, [said]))
