"""Trajectories come from the seed alone, and are what the readers expect."""

import json
import subprocess
import sys

from pivotrl.demo.expert import solve
from pivotrl.demo.tasks import make_task
from pivotrl.demo.trajectories import rows, write
from pivotrl.trajectories.config import TrajectoriesConfig
from pivotrl.trajectories.records import Turn
from pivotrl.trajectories.turns import TurnReader


def test_same_seed_same_bytes_other_seed_other_tasks(tmp_path):
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        write(tmp_path / name, 20, seed)
    first, again, other = ((tmp_path / name).read_bytes() for name in "abc")
    assert first == again
    assert not set(first.splitlines()) & set(other.splitlines())
    assert not list(tmp_path.glob("*.part"))


def test_a_longer_file_begins_with_the_shorter_one():
    assert list(rows(5, 3)) == list(rows(8, 3))[:5]


def test_rows_are_openai_chat():
    for row in rows(30, 1):
        assert set(row) == {"id", "messages", "tools", "reward"} and row["reward"] == 1.0
        names = {tool["function"]["name"] for tool in row["tools"]}
        assert len(names) >= 5
        assert [m["role"] for m in row["messages"][:2]] == ["system", "user"]
        assert row["messages"][-1]["role"] == "assistant"
        for message, after in zip(row["messages"], row["messages"][1:], strict=False):
            for called in message.get("tool_calls", ()):
                assert called["function"]["name"] in names
                assert isinstance(called["function"]["arguments"], str)
                assert all(isinstance(v, str) for v in json.loads(called["function"]["arguments"]).values())
                assert after["role"] == "tool" and after["tool_call_id"] == called["id"]


def test_command(tmp_path):
    out = tmp_path / "new" / "t.jsonl"
    command = [sys.executable, "-m", "pivotrl.demo.trajectories", "--out", str(out), "--tasks", "3", "--seed", "5"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    lines = out.read_text().splitlines()
    assert [json.loads(line) for line in lines] == json.loads(json.dumps(list(rows(3, 5))))
    assert "3 trajectories" in done.stdout
    bad = subprocess.run([*command[:-3], "0"], capture_output=True, text=True, timeout=60)
    assert bad.returncode == 2 and "--tasks" in bad.stderr


def test_readers_take_every_turn(tmp_path):
    write(tmp_path / "desk.jsonl", 20, 1)
    turns = list(TurnReader(TrajectoriesConfig(files=[str(tmp_path / "desk.jsonl")]), 0))
    assert all(isinstance(turn, Turn) for turn in turns)
    desks = [solve(make_task(1, index)) for index in range(20)]
    assert len(turns) == sum(desk.turns for desk in desks)
    first = turns[0]
    assert first.messages == desks[0].messages[:2] and first.tools == desks[0].tools
