"""Verdicts that are found while the engine samples are those that would be found after it, each once."""

import threading
import time
from types import SimpleNamespace

import pytest

from pivotrl.judging import Judging
from pivotrl.pivots.score import CUT_OFF, Scorer
from pivotrl.rollout.records import Sample
from pivotrl.trajectories.records import Turn
from pivotrl.verifiers.base import VerifierConfig

TEXTS = ["I waited.", "I did it.", "No.", ""]


class Template:
    """Token i stands for the i-th text."""

    def decode(self, ids: list[int]) -> str:
        return TEXTS[ids[0]]


class Parser:
    def parse(self, text: str, tools: list) -> list[dict]:
        return [{"type": "message", "content": text}] if text else []


def turn(number: int, verifier: dict | None = None) -> Turn:
    expert = {"type": "message", "content": TEXTS[number % 3]}
    return Turn(f"t/{number}", "t", number, 9, [], [], expert, verifier or {}, f"f:{number}", "train")


def group(number: int) -> list[Sample]:
    finish = ["stop", "stop", "length", "stop"]
    return [Sample([(number + i) % 4], [-1.0], finish[i]) for i in range(4)]


def session_of(scorer: Scorer, tensor: int = 1, rank: int = 0) -> SimpleNamespace:
    config = SimpleNamespace(rollout=SimpleNamespace(tensor=tensor))
    return SimpleNamespace(scorer=scorer, world=SimpleNamespace(rank=rank, world_size=1), config=config)


@pytest.fixture
def scorer():
    with_exact = Scorer(VerifierConfig(name="exact", workers=1, seconds=20), Parser(), Template())
    yield with_exact
    with_exact.close()


TURNS = [turn(number) for number in range(6)]
GROUPS = [group(number) for number in range(6)]


@pytest.mark.parametrize("heard", [[], [3], [5, 0, 4, 1, 3, 2]])
def test_whoever_judges_the_verdicts_are_the_same(scorer: Scorer, heard: list[int]) -> None:
    expected = scorer.verdicts(TURNS, GROUPS)
    assert {verdict.reward for row in expected for verdict in row} == {0.0, 1.0} and CUT_OFF in expected[0]
    judged: list[str] = []
    original = scorer.verdicts

    def counted(turns: list[Turn], groups: list) -> list:
        judged.extend(one.id for one in turns)
        return original(turns, groups)

    scorer.verdicts = counted
    with Judging(session_of(scorer), TURNS) as judging:
        for index in heard:
            judging.hear(index, GROUPS[index])
    assert judging.verdicts(GROUPS) == expected
    assert sorted(judged) == [one.id for one in TURNS], "each group is judged once"
    assert judged[: len(heard)] == [TURNS[index].id for index in heard], "as they come"


def test_the_engine_goes_on_while_a_verdict_is_made(scorer: Scorer) -> None:
    release, original = threading.Event(), scorer.verdicts

    def slow(turns: list[Turn], groups: list) -> list:
        assert release.wait(30), "the caller did not go on"
        return original(turns, groups)

    scorer.verdicts = slow
    with Judging(session_of(scorer), TURNS) as judging:
        start = time.monotonic()
        for index in range(6):
            judging.hear(index, GROUPS[index])
        assert time.monotonic() - start < 20
        release.set()
    assert judging.verdicts(GROUPS) == original(TURNS, GROUPS)


def test_the_ranks_of_an_engine_share_its_groups(scorer: Scorer) -> None:
    taken, asked = [], []
    for rank in (2, 3):
        with Judging(session_of(scorer, tensor=2, rank=rank), TURNS) as judging:
            for index in range(6):
                judging.hear(index, GROUPS[index])
            taken.append(sorted(judging._ahead))
            asked.append(judging)
    assert taken == [[0, 2, 4], [1, 3, 5]]
    # Both judged with one scorer's processes, each from a thread of its own.
    expected = scorer.verdicts(TURNS, GROUPS)
    for judging in asked:
        assert all(found.result(60) == [expected[index]] for index, found in judging._ahead.items())


def test_what_judges_in_this_process_waits(scorer: Scorer) -> None:
    """Such a verifier may be a judge that asks the very engine that is sampling."""
    here = Scorer(VerifierConfig(name="exact", workers=0), Parser(), Template())
    judge = Scorer(VerifierConfig(name="judge", params={"endpoint": "engine"}), Parser(), Template())
    assert not here.judges_apart(turn(0)) and not judge.judges_apart(turn(0))
    assert scorer.judges_apart(turn(0)) and judge.judges_apart(turn(0, {"name": "exact"}))
    with Judging(session_of(here), TURNS) as judging:
        judging.hear(0, GROUPS[0])
        assert not judging._ahead
    assert judging.verdicts(GROUPS) == scorer.verdicts(TURNS, GROUPS)


def test_what_a_verifier_raises_comes_out_of_verdicts(scorer: Scorer) -> None:
    def broken(turns: list[Turn], groups: list) -> list:
        raise RuntimeError("a worker could not start")

    with Judging(session_of(scorer), TURNS) as judging:
        scorer.verdicts = broken
        judging.hear(1, GROUPS[1])
    with pytest.raises(RuntimeError, match="could not start"):
        judging.verdicts(GROUPS)
