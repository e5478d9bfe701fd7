"""tools/simulate_profiling.py on recorded rewards, and what it says of files that it cannot use."""

import importlib.util
import json
import sys
from pathlib import Path

import pytest

from tests.launch import REPOSITORY


def command(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    path = REPOSITORY / "tools" / "simulate_profiling.py"
    spec = importlib.util.spec_from_file_location("simulate_profiling", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(sys, "argv", [str(path), *arguments])
    return module.main()


def profiles(path: Path, rows: list[list[float]]) -> str:
    path.write_text("".join(json.dumps({"id": str(i), "rewards": row}) + "\n" for i, row in enumerate(rows)))
    return str(path)


def test_recorded_rewards_are_replayed(monkeypatch, capsys, tmp_path) -> None:
    rows = [[0, 1, 0, 0, 1, 0, 0, 0], [0] * 8, [1] * 8, [0, 0, 0, 0, 0, 0, 0, 1]] * 5
    file = profiles(tmp_path / "profile.jsonl", rows)
    assert command(monkeypatch, "--distribution", file, "--json") == 0
    fixed, *others = json.loads(capsys.readouterr().out)
    assert (fixed["samples"], fixed["recall"], fixed["signal_per_sample"]) == (8, 1, 1)
    assert {row["rule"] for row in others} == {"thorough", "thrifty"}
    assert min(row["samples"] for row in others) < 5
    assert command(monkeypatch, "--distribution", file, "--max-mean", "1") == 0
    assert capsys.readouterr().out.count("*") >= 4


@pytest.mark.parametrize(
    "rows, words",
    [
        ([[0, 1, 0, 0], [0, 1]], "profile.jsonl:2: 2 rewards; a replay needs as many at every turn"),
        ([], "no profiles in it"),
        ([[0] * 4], "none of the 1 turns is a pivot"),
        ([["x"] * 4], "profile.jsonl:1: no list `rewards` of numbers"),
    ],
)
def test_mistakes_are_said_in_one_line(monkeypatch, capsys, tmp_path, rows, words) -> None:
    assert command(monkeypatch, "--distribution", profiles(tmp_path / "profile.jsonl", rows)) == 2
    assert words in capsys.readouterr().err
    assert command(monkeypatch, "--distribution", "nothing") == 2
    assert "write one of published, random_turns, or a profile.jsonl" in capsys.readouterr().err
