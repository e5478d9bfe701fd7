"""Selections killed at random moments and moved between one and two ranks end with the same bytes."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.launch import REPOSITORY
from tests.pivots.fakes import bytes_of

KILLS = 5


@pytest.fixture(scope="module")
def said(tmp_path_factory):
    """What tests/pivots/kill_ranks.py did in a folder."""
    folder = tmp_path_factory.mktemp("kills")
    command = [sys.executable, str(Path(__file__).with_name("kill_ranks.py")), str(folder), str(KILLS), "7"]
    done = subprocess.run(
        command,
        env=os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(REPOSITORY)},
        capture_output=True,
        text=True,
        timeout=400,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return json.loads(done.stdout.splitlines()[-1]) | {"folder": folder}


@pytest.mark.parametrize("profiling", ["fixed", "thorough"])
def test_killed_at_random_moments_on_one_and_two_ranks_gives_the_same_bytes(said, profiling):
    found, folder = said[profiling], said["folder"] / profiling
    assert found["codes"] == [0, 0, 0], (folder / "ranks.log").read_text()[-2000:]
    assert all(code == -9 for life in found["lives"] for code in life["codes"]), "every life was ended by its kill"
    assert sum(life["lines"] > 0 for life in found["lives"]) == KILLS, "and had finished some turns"
    assert bytes_of(folder / "killed") == bytes_of(folder / "whole")
    logs = sorted(path.name for path in (folder / "killed" / "progress").glob("engine_*"))
    assert logs == ["engine_00000.jsonl", "engine_00001.jsonl"]
    costs = [json.loads((folder / name / "summary.json").read_text())["cost"] for name in ("whole", "killed")]
    assert costs[0]["samples"] == costs[1]["samples"] and costs[1]["engine_seconds"] > costs[1]["seconds"]


def test_an_engine_of_two_ranks_profiles_the_same(said):
    assert said["tensor"] == [0, 0]
    profiles = [(said["folder"] / name / "profile.jsonl").read_bytes() for name in ("tensor", "thorough/whole")]
    assert profiles[0] == profiles[1]


def test_what_one_engine_meets_is_raised_on_every_rank(said):
    assert said["fails"] == [2, 2]
    for error in said["errors"]:
        assert error.endswith("engine_00001.jsonl: No space left on device; make room, or give another --out")
