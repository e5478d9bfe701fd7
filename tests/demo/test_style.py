"""Another manner, the same actions: a functional verifier does not see it, a strict one and imitation do."""

import json

import pytest

from pivotrl.demo.style import STYLES, restyle
from pivotrl.demo.tokenizer import render
from pivotrl.demo.trajectories import rows, write
from pivotrl.trajectories.config import TrajectoriesConfig
from pivotrl.trajectories.turns import TurnReader
from pivotrl.verifiers.attempt import Attempt
from pivotrl.verifiers.base import VerifierConfig
from pivotrl.verifiers.registry import build_verifier

TASKS = 60


@pytest.fixture(scope="module")
def turns(tmp_path_factory):
    """Style -> its turns, turn by turn of the same tasks."""
    found = {}
    for style in STYLES:
        path = tmp_path_factory.mktemp(style) / "t.jsonl"
        write(path, TASKS, 1, style)
        found[style] = list(TurnReader(TrajectoriesConfig(files=[str(path)]), 0))
    return found


def items(expert):
    return [expert]


def test_plain_is_what_it_was():
    plain = list(rows(TASKS, 1))
    assert list(rows(TASKS, 1, "plain")) == plain
    assert all(restyle(row["messages"], "plain", "x") is row["messages"] for row in plain)


def test_a_functional_verifier_takes_one_for_the_other(turns):
    functional, strict = (build_verifier(VerifierConfig(name=name)) for name in ("tool_call", "exact"))
    refused = 0
    assert len(turns["plain"]) == len(turns["chatty"]) > 200
    for plain, chatty in zip(turns["plain"], turns["chatty"], strict=True):
        for mine, theirs in ((plain, chatty), (chatty, plain)):
            attempt = Attempt(
                items=items(mine.expert), expert=theirs.expert, messages=theirs.messages, tools=theirs.tools
            )
            assert functional.verify(attempt).reward == 1.0
            refused += strict.verify(attempt).reward < 1.0
    assert refused > len(turns["plain"]) // 2


def test_the_world_is_the_same_and_the_words_are_not(turns):
    for plain, chatty in zip(rows(TASKS, 1), rows(TASKS, 1, "chatty"), strict=True):
        assert (plain["id"], plain["tools"]) == (chatty["id"], chatty["tools"])
        for mine, theirs in zip(plain["messages"], chatty["messages"], strict=True):
            if mine["role"] != "assistant":
                assert mine == theirs
                continue
            assert theirs["content"] and theirs["content"] != mine["content"]
            for one, other in zip(mine.get("tool_calls", ()), theirs.get("tool_calls", ()), strict=True):
                said, meant = (json.loads(call["function"]["arguments"]) for call in (other, one))
                assert said == meant and list(said) == list(meant)[::-1]


def test_wordings_vary_and_fit_a_turn(tokenizer):
    texts = [
        text
        for row in rows(200, 1, "chatty")
        for text, message in zip(render(row["messages"], row["tools"]), row["messages"], strict=True)
        if message["role"] == "assistant"
    ]
    assert max(len(ids) for ids in tokenizer(texts)["input_ids"]) <= 48
    assert len({text.split("<tool_call>")[0] for text in texts}) > 30
    assert list(rows(5, 1, "chatty")) == list(rows(5, 1, "chatty"))


def test_unknown_style():
    with pytest.raises(ValueError, match="'rude' does not exist: choose one of plain, chatty"):
        restyle([], "rude", "x")
