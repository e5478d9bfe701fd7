"""The path from a sample to its verdict."""

import pytest

from pivotrl.pivots.score import Scorer
from pivotrl.rollout.records import Sample
from pivotrl.trajectories.records import Turn
from pivotrl.verifiers.base import VerifierConfig

SAYS = Turn("t", "t", 0, 1, [], [], {"type": "message", "content": "Done."}, {}, "file", "train")


class Template:
    def decode(self, token_ids):
        return bytes(token_ids).decode()


class Parser:
    def parse(self, text, tools):
        return [{"type": "message", "content": text}]


@pytest.mark.parametrize(("finish", "reward", "reason"), [("stop", 1.0, None), ("length", 0.0, "cut_off")])
def test_an_action_that_the_token_limit_cut_off_earns_nothing(finish, reward, reason):
    sample = Sample(list(b"Done and d"), [0.0], finish)
    ((verdict,),) = Scorer(VerifierConfig(), Parser(), Template()).verdicts([SAYS], [[sample]])
    assert verdict.reward == reward
    assert reason is None or verdict.reason == reason
