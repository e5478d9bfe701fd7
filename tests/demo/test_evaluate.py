"""The three measurements, with an engine that recites: known answers in, known figures out."""

import json
import re

import pytest

from pivotrl.demo import evaluate
from pivotrl.demo.evaluate import family_accuracy, task_success, turn_reward
from pivotrl.demo.families import FAMILIES, questions
from pivotrl.demo.noise import play
from pivotrl.demo.tasks import make_task
from pivotrl.demo.tokenizer import render
from pivotrl.demo.trajectories import rows, write
from pivotrl.pivots.score import Scorer
from pivotrl.rollout.records import Sample
from pivotrl.trajectories.config import TrajectoriesConfig
from pivotrl.trajectories.template import ChatTemplate
from pivotrl.trajectories.turns import TurnReader
from pivotrl.verifiers.base import VerifierConfig

TASKS = [make_task(9, index) for index in range(12)]


class Reciter:
    """Answers a known prompt with its known text (every n-th sample with another one), others with "?"."""

    def __init__(self, template, book, spoil_every=0):
        self.template, self.book, self.spoil_every = template, book, spoil_every
        self.calls = 0

    def generate_all(self, requests):
        self.calls += 1
        return [[self._sample(request, n) for n in range(request.n)] for request in requests]

    def _sample(self, request, n):
        text = self.book.get(tuple(request.prompt_ids), "?")
        if self.spoil_every and n % self.spoil_every == 0:
            text = '<tool_call>\n{"name": "transfer", "arguments": {"why": "boredom"}}\n</tool_call>'
        ids = self.template.tokenizer(text + "<|im_end|>")["input_ids"]
        assert len(ids) <= request.max_tokens
        return Sample(ids, [0.0] * len(ids), "stop")


class Parser:
    """Enough of hermes for well-formed text; the real one is the rollout's, with its own tests."""

    def parse(self, text, tools):
        found = re.search(r"<tool_call>\n(.*)\n</tool_call>", text)
        if not found:
            return [{"type": "message", "content": text}]
        call = json.loads(found[1])
        return [{"type": "function_call", "name": call["name"], "arguments": json.dumps(call["arguments"])}]


def scorer_of(template):
    return Scorer(VerifierConfig(), Parser(), template)


@pytest.fixture(scope="module")
def template(tmp_path_factory, tokenizer):
    folder = tmp_path_factory.mktemp("tokenizer")
    tokenizer.save_pretrained(folder)
    return ChatTemplate(folder)


@pytest.fixture(scope="module")
def book(template):
    """Prompt -> what the expert writes there, for TASKS and for 20 questions a family."""
    book = {}
    for task in TASKS:
        desk, turns = play(task)
        parts = render(desk.messages, desk.tools)
        for index, _ in turns:
            prompt = template.encode(desk.messages[:index], desk.tools)
            book[tuple(prompt)] = parts[index].removeprefix("<|im_start|>assistant\n").removesuffix("<|im_end|>\n")
    for family in FAMILIES:
        for question, answer in questions(family, 20, "heldout"):
            book[tuple(template.encode([{"role": "user", "content": question}], []))] = answer
    return book


@pytest.fixture(scope="module")
def turns(tmp_path_factory):
    path = tmp_path_factory.mktemp("turns") / "t.jsonl"
    write(path, len(TASKS), 9)
    return list(TurnReader(TrajectoriesConfig(files=[str(path)]), 0))


def test_the_expert_scores_one_everywhere(template, book, turns):
    engine = Reciter(template, book)
    report = turn_reward(engine, scorer_of(template), template, turns, samples=2)
    assert (report.reward, report.mixed, report.turns) == (1.0, 0.0, len(turns))
    assert engine.calls == 1
    played = task_success(engine, Parser(), template, TASKS)
    assert played.success == 1.0 and played.solved == [True] * 12 and played.violations == played.unfinished == 0
    lengths = [sum(m["role"] == "assistant" for m in row["messages"]) for row in rows(12, 9)]
    assert played.turns == sum(lengths) / 12
    assert engine.calls == 1 + max(lengths), "one call serves the next turns of all open dialogs"
    accuracy = family_accuracy(engine, template, count=20)
    assert accuracy == dict.fromkeys([*FAMILIES, "mean"], 1.0)


def test_spoiled_samples_are_counted(template, book, turns):
    engine = Reciter(template, book, spoil_every=4)
    report = turn_reward(engine, scorer_of(template), template, turns, samples=8)
    assert (report.reward, report.mixed) == (0.75, 1.0)
    played = task_success(Reciter(template, book, spoil_every=1), Parser(), template, TASKS)
    assert played.success == 0.0 and played.unfinished == 1.0


def test_a_dialog_that_outgrows_the_context_ends_unsolved(template, book):
    lengths = [len(template.encode(play(task)[0].messages[:-1], play(task)[0].tools)) for task in TASKS]
    context = sorted(lengths)[6] + evaluate.TURN_TOKENS
    played = task_success(Reciter(template, book), Parser(), template, TASKS, context=context)
    assert played.solved == [length + evaluate.TURN_TOKENS <= context for length in lengths]
    assert played.unfinished == played.solved.count(False) / 12


def test_a_mute_policy_fails(template, turns):
    mute = Reciter(template, {})
    messages = [turn.expert["type"] == "message" for turn in turns]
    report = turn_reward(mute, scorer_of(template), template, turns)
    assert report.reward == sum(messages) / len(messages), "any message is right where a message is expected"
    assert task_success(mute, Parser(), template, TASKS).success == 0.0
    assert family_accuracy(mute, template, count=20)["mean"] == 0.0


def test_seeds_are_each_requests_own(template, turns):
    seen = []

    class Spy(Reciter):
        def generate_all(self, requests):
            seen.extend(request.seed for request in requests)
            return super().generate_all(requests)

    turn_reward(Spy(template, {}), scorer_of(template), template, turns, seed=3)
    assert len(set(seen)) == len(turns)
    assert evaluate._seed(3, "a") != evaluate._seed(4, "a")


def test_nothing_to_measure_is_an_error(template):
    with pytest.raises(ValueError, match="held-out"):
        turn_reward(Reciter(template, {}), scorer_of(template), template, [])
    with pytest.raises(ValueError, match="no task"):
        task_success(Reciter(template, {}), Parser(), template, [])
