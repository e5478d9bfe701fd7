"""`verifier: my_package.module:MyVerifier`: the user's own class, in the command, in workers and in a run's file."""

import os
import subprocess
import sys

import pytest

from pivotrl.config import parse_config
from pivotrl.verifiers import judges, scoring
from pivotrl.verifiers.base import VerifierConfig
from pivotrl.verifiers.judges import Judges
from pivotrl.verifiers.registry import build_verifier, row_config
from pivotrl.verifiers.rows import RowReader
from pivotrl.verifiers.score_files import Outputs
from tests.verifiers.test_score import COMMAND, RIGHT, WRONG, read, write

SOURCE = """
import os
from pivotrl.schema import Section
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
SOURCE += """
class NoVerify(Verifier):
    pass

class NoInit(Verifier):
    def verify(self, attempt, params=None):
        return Verdict(1.0, "yes")

class OddInit(NoInit):
    def __init__(self, a, b):
        pass

class OddVerify(Verifier):
    def __init__(self, params):
        pass

    def verify(self, attempt):
        return Verdict(1.0, "yes")

class Raises(NoInit):
    def __init__(self, params):
        self.tools = params["tools"]

class Settings(Section):
    unit: str

class Pydantic(NoInit):
    def __init__(self, params):
        Settings(**params)
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
        ("a/b.py:Mine", "names a file; write the module and the class, b:Mine, and set PYTHONPATH=a"),
        ("b.py:Mine", "names a file; write the module and the class, b:Mine, and set PYTHONPATH=."),
        ("/x/b.py", "names a file; write the module and the class, b:MyVerifier, and set PYTHONPATH=/x"),
        ("a/b:Mine", "is not of the form my_package.module:MyVerifier"),
        ("tool_cal", "did you mean tool_call? write one of tool_call,"),
        (f"{NAME}:NoVerify", "has no verify; write def verify(self, attempt, params=None)"),
        (f"{NAME}:NoInit", "(it has no __init__); write def __init__(self, params: dict[str, Any])"),
        (f"{NAME}:OddInit", "(it has __init__(self, a, b)); write def __init__(self, params: dict[str, Any])"),
        (f"{NAME}:OddVerify", "(it has verify(self, attempt)); write def verify(self, attempt, params=None)"),
        (f"{NAME}:Raises", "its __init__ raises KeyError: 'tools' (module.py:53); repair it there"),
        (f"{NAME}:Pydantic", "verifier.params: 1 validation error"),
    ],
)
def test_what_is_wrong_with_a_name_is_said(importable, name, says):
    with pytest.raises(ValueError, match=r"verifier\.(name|params)") as error:
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
    with Judges(run) as pools:
        (verdict,) = pools.judge(list(RowReader(tmp_path / "in.jsonl", run, lambda text, tools: [])))
    assert verdict.reward == 1 and verdict.detail == str(os.getpid())


def test_what_one_cost_is_said_and_it_is_closed(tmp_path, package):
    done = score(tmp_path, f"{NAME}:Alone", [RIGHT], path=package)
    assert done.stdout.splitlines()[-2:] == [f"{NAME}:Alone: questions 3, price 0.5", "closed"]


BUGGY = """
import json
from pivotrl.verifiers.base import Verdict, Verifier

class Buggy(Verifier):
    def __init__(self, params): pass
    def verify(self, attempt, params=None):
        return Verdict(1.0, attempt.items[0]["name"])

class Deep(Buggy):
    def verify(self, attempt, params=None):
        return json.loads("{" + "x" * 300)
"""


@pytest.mark.parametrize("workers", [0, 1])
def test_one_that_raises_costs_its_row_and_is_counted(tmp_path, package, workers):
    (package / "buggy.py").write_text(BUGGY)
    done = score(tmp_path, "buggy:Buggy", [RIGHT, WRONG], "--workers", workers, path=package)
    assert done.returncode == 0, "a verdict was given"
    assert [row["reason"] for row in read(tmp_path / "out.jsonl")] == ["f", "verifier_error"]
    assert read(tmp_path / "out.jsonl")[1]["detail"] == "KeyError: 'name' (buggy.py:8)"
    assert done.stdout.splitlines()[-1] == "verifier_error: 1 of 2 rows; the first: KeyError: 'name' (buggy.py:8)"


@pytest.mark.parametrize("workers", [0, 1])
def test_one_that_raises_on_every_row_is_a_failure(tmp_path, package, workers):
    (package / "buggy.py").write_text(BUGGY)
    done = score(tmp_path, "buggy:Deep", [RIGHT, WRONG], "--workers", workers, path=package)
    assert done.returncode == 1, done.stderr
    last = done.stdout.splitlines()[-1]
    assert last.startswith("verifier_error: 2 of 2 rows; the first: JSONDecodeError: Expecting property name")
    assert "(buggy.py:12, in decoder.py:" in last
    done = score(tmp_path, "buggy:Deep", [RIGHT, WRONG], "--workers", workers, "--audit", path=package)
    assert done.returncode == 1 and done.stdout.splitlines()[-1].startswith("verifier_error: 18 of 18 probes; ")


def test_an_audit_of_one_that_never_answers_is_stopped(tmp_path, monkeypatch):
    (tmp_path / "stuck_in_a_test.py").write_text(BUGGY.replace("return json.loads(", "while True: ("))
    monkeypatch.syspath_prepend(str(tmp_path))
    for module in (judges, scoring):
        monkeypatch.setattr(module, "FIRST_ROWS", 3)
    run = VerifierConfig(name="stuck_in_a_test:Deep", workers=1, seconds=0.1)
    rows, said = RowReader(write(tmp_path / "in.jsonl", *[RIGHT] * 500), run, None), []
    assert not scoring.score_audit(rows, run, Outputs(None, []), say=said.append)
    lines = said[0].splitlines()
    assert lines[-2] == "time_limit: 3 of 3 probes; the first: no verdict in 0.1 s"
    assert lines[-1].startswith("stopped: the first 3 probes all ran into the time limit of 0.1 s")
