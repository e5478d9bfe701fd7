"""The path from a sample to its verdict."""

from dataclasses import replace

import pytest

from pivotrl.pivots.score import Scorer
from pivotrl.rollout.records import Sample
from pivotrl.trajectories.records import Turn
from pivotrl.verifiers.base import VerifierConfig
from pivotrl.verifiers.exact import ExactVerifier

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


def turns_and_groups():
    """Turns whose rows name verifiers of their own, with completions of several kinds."""
    rows = [{}, {"name": "exact"}, {}, {"name": "exact", "preset": "robust"}, {"params": {"allow_subset": True}}]
    turns = [replace(SAYS, id=str(index), verifier=row) for index, row in enumerate(rows * 3)]
    texts = [b"Done.", b"done", b"", b"Done. And d"]
    group = [Sample(list(text), [0.0], "length" if text.endswith(b"d") else "stop") for text in texts]
    return turns, [group[index % 2 :] for index in range(len(turns))]


@pytest.mark.parametrize("workers", [1, 2])
def test_verdicts_are_the_same_whoever_judges(workers):
    def verdicts(workers):
        scorer = Scorer(VerifierConfig(workers=workers, seconds=20), Parser(), Template())
        first, second = scorer.verdicts(*turns_and_groups()), scorer.verdicts(*turns_and_groups())
        scorer.close()
        assert first == second
        return first

    here = verdicts(0)
    assert verdicts(workers) == here
    assert {verdict.reason for group in here for verdict in group} == {
        "cut_off",
        "message_as_expected",
        "equal",
        "not_equal",
    }


def test_a_stuck_verifier_costs_one_completion():
    config = VerifierConfig(name="tests.verifiers.unruly:Unruly", seconds=0.5)
    scorer = Scorer(config, Parser(), Template())
    group = [Sample(list(text), [0.0], "stop") for text in (b"fine", b"spin", b"fine")]
    found = scorer.verdicts([SAYS, SAYS], [group, group[:1]])
    assert [[verdict.reason for verdict in row] for row in found] == [
        ["said fine", "time_limit", "said fine"],
        ["said fine"],
    ]


def test_whom_to_ask_reaches_the_verifiers_that_ask():
    asked = []

    class Asks(ExactVerifier):
        attach = staticmethod(asked.append)

    scorer = Scorer(VerifierConfig(name="exact"), Parser(), Template())
    scorer.attach("nobody")
    assert not asked
    scorer._pools._pool(VerifierConfig(name="exact")).verifier = Asks({})
    scorer.attach("engine")
    assert asked == ["engine"]
