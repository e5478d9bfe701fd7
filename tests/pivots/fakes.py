"""An engine, a template and a parser small enough to see through: a token is a byte, an action is JSON text."""

import json
import random
from collections.abc import Callable
from pathlib import Path

from pivotrl.config import RunConfig, parse_config
from pivotrl.rollout.records import Request, Sample

GOOD = json.dumps([{"type": "function_call", "name": "get_order", "arguments": '{"order_id": "A-1"}'}])
TALK = json.dumps([{"type": "message", "content": "ok"}])


class FakeEngine:
    """Answers from a request's seed and its samples' numbers alone, like a real engine; can be told to die after some
    requests."""

    rank, world_size, engines, engine_index, object_group = 0, 1, 1, 0, None

    def __init__(self, die_after: int | None = None):
        self.die_after, self.calls, self.requests, self.resets = die_after, 0, [], 0

    def reset_prefix_cache(self) -> None:
        self.resets += 1

    def generate(
        self, requests: list[Request], finished: Callable[[int, list[Sample]], None] | None = None
    ) -> list[list[Sample]]:
        self.calls += 1
        assert self.resets, "a unit starts with an empty prefix cache"
        results = []
        for number, request in enumerate(requests):
            if len(self.requests) == self.die_after:
                raise KeyboardInterrupt
            self.requests.append(request)
            results.append(self._samples(request))
            if finished is not None:
                finished(number, results[-1])
        return results

    def _samples(self, request: Request) -> list[Sample]:
        noise = random.Random(request.seed)
        share = noise.choice([0.0, 0.2, 0.5, 0.9, 1.0])
        drawn = [noise.random() for _ in range(request.first + request.n)][request.first :]
        texts = [GOOD if value < share else TALK for value in drawn]
        return [Sample(list(text.encode()), [0.0] * len(text), "stop") for text in texts]


class FakeTemplate:
    hash = "fake"

    def encode(self, messages, tools) -> list[int]:
        if any("REFUSE" in message["content"] for message in messages):
            raise ValueError("the chat template refused the messages (test)")
        return list(json.dumps(messages).encode())

    def decode(self, token_ids) -> str:
        return bytes(token_ids).decode()


class FakeParser:
    def parse(self, text, tools) -> list[dict]:
        return json.loads(text)


def run_config(files: list[str], **sections: dict) -> RunConfig:
    tree = {
        "output": "unused",
        "seed": 5,
        "model": {"path": "fake-model"},
        "trajectories": {"files": files, "heldout_share": 0.1, **sections.pop("trajectories", {})},
        "pivots": {"samples": 4, "chunk": 8, "max_mean": 0.6, **sections.pop("pivots", {})},
        "rollout": {"max_model_len": 1024, "max_new_tokens": 64, **sections.pop("rollout", {})},
        **sections,
    }
    return parse_config(tree, "test")


FILES = ("profile.jsonl", "pivots.jsonl", "rejected.jsonl")


def bytes_of(folder: Path) -> dict[str, bytes]:
    return {name: (folder / name).read_bytes() for name in FILES}
