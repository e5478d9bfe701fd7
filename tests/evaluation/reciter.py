"""An engine that recites, a parser for well-formed text, and a session of them: known answers in, known figures out."""

import json
import re
from pathlib import Path
from types import SimpleNamespace

import pytest

from pivotrl.config import parse_config
from pivotrl.demo.families import FAMILIES
from pivotrl.demo.noise import play
from pivotrl.demo.questions import rows as question_rows
from pivotrl.demo.tasks import make_task
from pivotrl.demo.tokenizer import render
from pivotrl.demo.trajectories import write
from pivotrl.pivots.score import Scorer
from pivotrl.rollout.records import Sample
from pivotrl.trajectories.template import ChatTemplate
from pivotrl.verifiers.base import VerifierConfig
from tests.launch import REPOSITORY

STREAM, COUNT, QUESTIONS = "9", 12, 20
TASKS = [make_task(STREAM, index) for index in range(COUNT)]
BASE = REPOSITORY / "pivotrl" / "demo" / "base"
BAD_CALL = '<tool_call>\n{"name": "transfer", "arguments": {"why": "boredom"}}\n</tool_call>'


class Reciter:
    """Answers a known prompt with its known text (every n-th sample with another one), others with "?"."""

    def __init__(self, template, book, spoil_every=0):
        self.template, self.book, self.spoil_every = template, book, spoil_every
        self.weights, self.calls, self.resets, self.asked = f"weights {spoil_every}", 0, 0, []
        self.die_at = None

    def reset_prefix_cache(self):
        self.resets += 1

    def generate_all(self, requests):
        if self.calls == self.die_at:
            raise KeyboardInterrupt
        self.calls += 1
        self.asked += requests
        return [[self._sample(request, n) for n in range(request.n)] for request in requests]

    def _sample(self, request, n):
        text = self.book.get(tuple(request.prompt_ids), "?")
        if self.spoil_every and n % self.spoil_every == 0:
            text = BAD_CALL
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


@pytest.fixture(scope="module")
def template() -> ChatTemplate:
    return ChatTemplate(BASE)


@pytest.fixture(scope="module")
def book(template):
    """Prompt -> what the expert writes there, for TASKS and for the questions of each family."""
    book = {}
    for task in TASKS:
        desk, turns = play(task)
        parts = render(desk.messages, desk.tools)
        for index, _ in turns:
            prompt = template.encode(desk.messages[:index], desk.tools)
            book[tuple(prompt)] = parts[index].removeprefix("<|im_start|>assistant\n").removesuffix("<|im_end|>\n")
    for row in question_rows(QUESTIONS, "heldout", FAMILIES):
        book[tuple(template.encode(row["messages"], []))] = row["answer"]
    return book


def session_of(folder: Path, template, engine, **evaluation):
    """A session of one process whose held-out split is all of TASKS' trajectories."""
    from pivotrl.demo import questions

    write(folder / "t.jsonl", COUNT, STREAM)
    questions.write(folder / "q.jsonl", QUESTIONS, "heldout")
    section = {"environment": "desk", "stream": STREAM, "tasks": COUNT, "families": str(folder / "q.jsonl")}
    tree = {
        "output": str(folder / "run"),
        "model": {"path": str(BASE), "dtype": "float32"},
        "trajectories": {"files": [str(folder / "t.jsonl")], "heldout_share": 0.999999},
        "rollout": {"max_model_len": 512, "max_new_tokens": 48},
        "pivots": {"samples": 4, "max_mean": 0.9},
        "evaluation": section | {"answer_tokens": 16} | evaluation,
    }
    scorer = Scorer(VerifierConfig(workers=0), Parser(), template)
    world = SimpleNamespace(rank=0, world_size=1, object_group=None)
    return SimpleNamespace(
        config=parse_config(tree, "test"), world=world, engine=engine, template=template, parser=Parser(), scorer=scorer
    )
