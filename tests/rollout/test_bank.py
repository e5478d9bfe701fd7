"""The rollout bank: what it gives back is what was put in, and nothing that it cannot be sure of."""

import json
import random
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch.distributed as dist

from pivotrl.policy.routes import Routes
from pivotrl.rollout import bank
from pivotrl.rollout.records import Request, Sample

N = 3


def request(number: int) -> Request:
    return Request([number, 7, 8], N, number, 1.0, 1.0, 16)


def samples_of(one: Request, salt: str = "") -> list[Sample]:
    """What an engine would sample: decided by the request alone."""
    draw = random.Random(f"{one.seed}{salt}")
    lengths = [draw.randrange(1, one.max_tokens) for _ in range(one.n)]
    return [
        Sample(
            [draw.randrange(150_000) for _ in range(length)],
            np.array([-draw.random() for _ in range(length)], np.float32).tolist(),
            draw.choice(["stop", "length"]),
        )
        for length in lengths
    ]


class Engine:
    """Answers as the engine does, counts what it sampled, and dies after `dies_after` groups."""

    rank, config = 0, SimpleNamespace(tensor=1)

    def __init__(self, weights: str = "w", dies_after: int | None = None):
        self.weights, self.dies_after, self.object_group = weights, dies_after, dist.group.WORLD
        self.sampled: list[int] = []

    def generate_all(self, requests: list[Request], finished) -> list[list[Sample]]:
        results = [samples_of(one, self.weights) for one in requests]
        for number in sorted(range(len(requests)), key=lambda n: requests[n].seed * 7 % 5):
            if self.dies_after == len(self.sampled):
                raise KeyboardInterrupt
            self.sampled.append(requests[number].seed)
            finished(number, results[number])
        return results


@pytest.fixture(autouse=True)
def world():
    if dist.is_initialized():
        pytest.skip("another test left a process group")
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield
    dist.destroy_process_group()


REQUESTS = [request(number) for number in range(8)]


def killed(folder: Path, after: int) -> Path:
    """The file of a step that was killed after some groups."""
    with pytest.raises(KeyboardInterrupt):
        bank.generate(Engine(dies_after=after), REQUESTS, folder, 3)
    return folder / "step_000003" / "rank_00000.jsonl"


def expected() -> list[list[Sample]]:
    return [samples_of(one, "w") for one in REQUESTS]


@pytest.mark.parametrize("after", [0, 1, 5, 7])
def test_a_killed_step_is_finished_from_the_bank(tmp_path: Path, after: int, capsys) -> None:
    killed(tmp_path, after)
    engine = Engine()
    assert bank.generate(engine, REQUESTS, tmp_path, 3) == expected()
    assert len(engine.sampled) == 8 - after, "what is in the bank is not sampled again"
    assert (f"step 4: {after} of 8 groups come from the bank" in capsys.readouterr().out) == bool(after)
    idle = Engine(dies_after=0)
    assert bank.generate(idle, REQUESTS, tmp_path, 3) == expected()
    assert bank.generate(Engine(), list(reversed(REQUESTS)), tmp_path, 3) == expected()[::-1], "whatever the order"


def test_a_kill_at_any_byte_loses_at_most_the_last_group(tmp_path: Path, capsys) -> None:
    whole = killed(tmp_path, 3).read_bytes()
    ends = [index + 1 for index, byte in enumerate(whole) if byte == 10]
    for size in {*range(0, len(whole), 37), *ends, *(end - 1 for end in ends)}:
        path = tmp_path / f"cut {size}" / "step_000003" / "rank_00000.jsonl"
        path.parent.mkdir(parents=True)
        path.write_bytes(whole[:size])
        engine = Engine()
        assert bank.generate(engine, REQUESTS, path.parents[1], 3) == expected()
        # A last line that lacks but its newline is whole.
        kept = sum(end - 1 <= size for end in ends)
        assert len(engine.sampled) == 8 - kept, size
    assert "broken" not in capsys.readouterr().out, "a torn last line is what a kill leaves"


def test_a_changed_line_is_refused_and_only_that_line(tmp_path: Path, capsys) -> None:
    path = killed(tmp_path, 5)
    lines = path.read_bytes().splitlines(keepends=True)
    draw = random.Random(0)
    for _ in range(60):
        changed = bytearray(lines[2])
        changed[draw.randrange(len(changed) - 1)] ^= 1 << draw.randrange(7)
        if b"\n" in changed[:-1] or bytes(changed).isspace():
            continue
        path.write_bytes(b"".join([*lines[:2], bytes(changed), *lines[3:]]))
        found, _ = bank.read(tmp_path, 3, [bank.key_of("w", one) for one in REQUESTS])
        for one in REQUESTS:
            group = found.get(bank.key_of("w", one))
            assert group is None or group == samples_of(one, "w")
        assert len(found) >= 4
    path.write_bytes(b"".join([*lines[:2], lines[2].replace(b'"finish":["', b'"finish":["s'), *lines[3:]]))
    engine = Engine()
    assert bank.generate(engine, REQUESTS, tmp_path, 3) == expected()
    assert len(engine.sampled) == 4
    assert "1 broken groups are sampled again" in capsys.readouterr().out


def test_groups_of_other_weights_or_another_request_are_never_taken(tmp_path: Path) -> None:
    killed(tmp_path, 8 - 1)
    other = Engine(weights="others")
    assert bank.generate(other, REQUESTS, tmp_path, 3) == [samples_of(one, "others") for one in REQUESTS]
    assert len(other.sampled) == 8
    base, key = REQUESTS[0], bank.key_of("w", REQUESTS[0])
    changes = {"prompt_ids": [0, 7, 9], "n": 4, "seed": 99, "temperature": 0.9, "top_p": 0.5, "max_tokens": 17}
    for name, value in (changes | {"routes": True, "first": 3}).items():
        assert bank.key_of("w", replace(base, **{name: value})) != key, name
    next_step = Engine()
    bank.generate(next_step, REQUESTS, tmp_path, 4)
    assert len(next_step.sampled) == 8


def test_routes_and_odd_numbers_come_back_bit_for_bit(tmp_path: Path) -> None:
    prompt = np.arange(24, dtype=np.uint8).reshape(4, 3, 2)
    responses = [np.full((n, 3, 2), n, np.int16) for n in (0, 2)]
    logprobs = [[], [-1e-45, -float(np.float32(0.1)), -0.1]]
    samples = [
        Sample([2**31 - 1] * len(row), row, "stop", Routes(prompt, response))
        for row, response in zip(logprobs, responses, strict=True)
    ]
    writer = bank.BankWriter(tmp_path, 0, 2)
    writer.append("key", samples)
    writer.append("key", samples[:1])
    writer.close()
    found, broken = bank.read(tmp_path, 0, ["key"])
    assert found["key"] == samples and broken == 0, "a group that is there twice counts once"
    for one, other in zip(found["key"], samples, strict=True):
        assert one.routes.prompt is found["key"][0].routes.prompt
        for side in ("prompt", "response"):
            mine, theirs = getattr(one.routes, side), getattr(other.routes, side)
            assert mine.dtype == theirs.dtype and mine.shape == theirs.shape and (mine == theirs).all()


def test_steps_that_a_checkpoint_holds_are_forgotten(tmp_path: Path) -> None:
    for step in (0, 4, 5, 1_000_000):
        writer = bank.BankWriter(tmp_path, step, 0)
        writer.append("key", [])
        writer.close()
    (tmp_path / "step_notes").mkdir()
    bank.forget_before(tmp_path, 5)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["step_000005", "step_1000000", "step_notes"]
    bank.forget_before(tmp_path / "none", 5)


def test_a_disk_that_is_full_is_said_on_every_rank_when_all_is_sampled(tmp_path: Path, monkeypatch) -> None:
    def full(self, key: str, samples: list[Sample]) -> None:
        raise OSError(28, "No space left on device", "bank/step_000003")

    monkeypatch.setattr(bank.BankWriter, "append", full)
    engine = Engine()
    with pytest.raises(ValueError, match="bank/step_000003: No space left on device"):
        bank.generate(engine, REQUESTS, tmp_path, 3)
    assert len(engine.sampled) == 8, "no rank leaves the others alone in the middle"


def test_lines_are_json_that_others_can_read(tmp_path: Path) -> None:
    row = json.loads(killed(tmp_path, 1).read_text())
    assert set(row) == {"sha256", "group"} and set(row["group"]) == {"key", "finish", "tokens", "logprobs"}
