"""`verifier: my_package.module:MyVerifier`: the user's own class, in the command, in workers and in a run's file."""

import json
import os
import subprocess
import sys

import pytest

from pivotrl.config import parse_config
from pivotrl.verifiers.base import VerifierConfig
from pivotrl.verifiers.judges import Judges
from pivotrl.verifiers.registry import build_verifier, row_config
from pivotrl.verifiers.rows import RowReader
from tests.verifiers.test_score import COMMAND, RIGHT, WRONG, read, write

SOURCE = """
import os
from pivotrl.verifiers.base import Verdict, Verifier

NOT_A_CLASS = 5

class NotAVerifier:
    pass

class Mine(Verifier):
    def __init__(self, params):
        if params.keys() - {"reward"}:
            raise ValueError("verifier.params: only reward")
        self.reward = params.get("reward", 1)

    def verify(self, attempt, params=None):
        if params and params.keys() - {"reward"}:
            raise ValueError("verifier.params: only reward; leave the others out")
        right = attempt.items == [attempt.expert]
        reward = (params or {}).get("reward", self.reward)
        return Verdict(reward * right, "right" if right else "wrong", str(os.getpid()))

class Alone(Mine):
    in_pool = False

    def usage(self):
        return {"questions": 3, "price": 0.5}

    def close(self):
        print("closed")
"""
NAME = "own_package_of_a_test.inner.module"


@pytest.fixture
def package(tmp_path):
    folder = tmp_path / "packages" / "own_package_of_a_test" / "inner"
    folder.mkdir(parents=True)
    (folder / "__init__.py").touch()
    (folder / "module.py").write_text(SOURCE)
    return tmp_path / "packages"


@pytest.fixture
def importable(package, monkeypatch):
    monkeypatch.syspath_prepend(str(package))
    yield
    for name in [name for name in sys.modules if name.startswith("own_package_of_a_test")]:
        del sys.modules[name]


def score(tmp_path, name, rows, *more, cwd=None, path=""):
    write(tmp_path / "in.jsonl", *rows)
    words = ["--verifier", name, "--rows", tmp_path / "in.jsonl", "--out", tmp_path / "out.jsonl", *more]
    environment = {**os.environ, "PYTHONPATH": str(path)}
    command = [sys.executable, str(COMMAND), *map(str, words)]
    return subprocess.run(command, cwd=cwd or tmp_path, env=environment, capture_output=True, text=True, timeout=60)


def test_the_command_judges_with_it_in_workers(tmp_path, package):
    rows = [RIGHT, WRONG, {**RIGHT, "params": {"reward": 0.25}}, {**RIGHT, "params": {"rewad": 1}}]
    done = score(tmp_path, f"{NAME}:Mine", rows, "--param", "reward=0.5", "--workers", 1, path=package)
    assert done.returncode == 0, done.stderr
    found = read(tmp_path / "out.jsonl")
    assert [(row["reward"], row["reason"]) for row in found] == [(0.5, "right"), (0, "wrong"), (0.25, "right")]
    assert len({row["detail"] for row in found}) == 1, "one worker"
    (bad,) = read(tmp_path / "out.rejected.jsonl")
    assert (bad["reason"], bad["found"]) == ("bad_params", "verifier.params: only reward")


def test_it_is_found_in_the_current_folder(tmp_path, package):
    done = score(tmp_path, f"{NAME}:Mine", [RIGHT], "--workers", 1, cwd=package)
    assert done.returncode == 0, done.stderr
    assert [row["reward"] for row in read(tmp_path / "out.jsonl")] == [1]


@pytest.mark.parametrize(
    "name, says",
    [
        (f"{NAME}:Other", "the module own_package_of_a_test.inner.module has no 'Other'"),
        (f"{NAME}:NotAVerifier", "is not a subclass of pivotrl.verifiers.base.Verifier"),
        (f"{NAME}:NOT_A_CLASS", "is not a subclass of pivotrl.verifiers.base.Verifier"),
        ("own_package_of_a_test.other:Mine", "cannot be imported"),
        ("no_such_package_at_all:Mine", "install its package, or set PYTHONPATH"),
        (f"{NAME}:", "is not of the form my_package.module:MyVerifier"),
        ("a/b.py:Mine", "is not of the form my_package.module:MyVerifier"),
    ],
)
def test_what_is_wrong_with_a_name_is_said(importable, name, says):
    with pytest.raises(ValueError, match=r"verifier\.name") as error:
        build_verifier(VerifierConfig(name=name))
    assert says in str(error.value) and "\n" not in str(error.value)


def test_the_command_says_it_in_one_line(tmp_path, package):
    done = score(tmp_path, f"{NAME}:Other", [RIGHT], path=package)
    assert done.returncode == 2 and done.stderr.count("\n") == 1 and "has no 'Other'" in done.stderr
    done = score(tmp_path, f"{NAME}:Mine", [RIGHT], "--param", "rewad=1", path=package)
    assert done.returncode == 2 and done.stderr == "score: verifier.params: only reward\n"


def test_a_run_names_it(importable):
    tree = {"output": "o", "model": {"path": "m"}, "verifier": f"{NAME}:Mine"}
    config = parse_config(tree, "run.yaml")
    assert config.verifier == VerifierConfig(name=f"{NAME}:Mine")
    assert type(build_verifier(config.verifier)).__name__ == "Mine"
    tree["verifier"] = {"name": f"{NAME}:Mine", "params": {"reward": 0.5}, "workers": 0}
    assert build_verifier(parse_config(tree, "run.yaml").verifier).reward == 0.5


def test_a_row_names_it_only_where_the_run_does(tmp_path, package, importable):
    name = f"{NAME}:Mine"
    row = {**RIGHT, "verifier": {"name": name}}
    done = score(tmp_path, "exact", [row, {**RIGHT, "verifier": {"name": "os:system"}}, RIGHT], path=package)
    assert done.returncode == 0 and [found["reason"] for found in read(tmp_path / "out.jsonl")] == ["equal"]
    assert [bad["reason"] for bad in read(tmp_path / "out.rejected.jsonl")] == ["bad_verifier"] * 2
    for other in (VerifierConfig(), VerifierConfig(name=f"{NAME}:Alone")):
        with pytest.raises(ValueError, match="in a row is not a verifier"):
            row_config(other, row["verifier"])
    assert row_config(VerifierConfig(name=name), row["verifier"]).name == name


def test_one_that_may_not_run_in_a_worker_runs_here(tmp_path, importable):
    run = VerifierConfig(name=f"{NAME}:Alone", workers=1)
    write(tmp_path / "in.jsonl", RIGHT)
    with Judges(run) as judges:
        (verdict,) = judges.judge(list(RowReader(tmp_path / "in.jsonl", run, lambda text, tools: [])))
    assert verdict.reward == 1 and verdict.detail == str(os.getpid())


def test_what_one_cost_is_said_and_it_is_closed(tmp_path, package):
    done = score(tmp_path, f"{NAME}:Alone", [RIGHT], path=package)
    assert done.stdout.splitlines()[-2:] == [f"{NAME}:Alone: questions 3, price 0.5", "closed"]


def test_one_that_raises_costs_its_row_and_is_counted(tmp_path, package):
    (package / "buggy.py").write_text(
        "from pivotrl.verifiers.base import Verdict, Verifier\nclass Buggy(Verifier):\n"
        "    def __init__(self, params): pass\n"
        "    def verify(self, attempt, params=None): return Verdict(1.0, attempt.items[0]['name'])\n"
    )
    done = score(tmp_path, "buggy:Buggy", [RIGHT, WRONG], "--workers", 1, path=package)
    assert done.returncode == 0 and "verifier_error" in done.stdout
    assert [row["reason"] for row in read(tmp_path / "out.jsonl")] == ["f", "verifier_error"]
    assert json.loads((tmp_path / "out.jsonl").read_text().splitlines()[1])["detail"].startswith("KeyError")
