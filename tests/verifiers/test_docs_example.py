"""docs/verifiers.md: its commands run and print what it shows, its code is the example's, its table is current."""

import ast
import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from pivotrl.verifiers import number, reference
from pivotrl.verifiers.audit import items_of
from pivotrl.verifiers.base import VerifierConfig
from pivotrl.verifiers.comparators import comparator
from pivotrl.verifiers.registry import VERIFIERS, build_verifier
from pivotrl.verifiers.rows import RowReader

REPOSITORY = Path(__file__).resolve().parents[2]
PAGE = (REPOSITORY / "docs" / "verifiers.md").read_text(encoding="utf-8")
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
BLOCKS = [(found[1], found[2]) for found in BLOCK.finditer(PAGE)]
MARK = re.compile(r"# run by tests(?:, exit code (\d))?\n")
COMMANDS = [
    (text, int(mark[1] or 0), shown if kind_below == "text" else "")
    for (kind, text), (kind_below, shown) in zip(BLOCKS, [*BLOCKS[1:], ("", "")])
    if kind == "sh" and (mark := MARK.match(text))
]

CLAIMS = [
    ("shell", "grep -n  'foo' ./a//b/../c.txt # x", "grep -n foo a/c.txt", True),
    ("shell", "ls -la src", "ls -l --all src", True),
    ("shell", "cd src && cat a.py", "cat src/a.py", True),
    ("shell", "egrep x f", "grep -E x f", True),
    ("shell", "cat a b", "cat b a", False),
    ("shell", "echo x > a", "echo x > b", False),
    ("shell", "make && ls", "make; ls", False),
    ("shell", "head -n 5 a", "sed -n 1,5p a", False),
    ("shell", "cat <<EOF > f\nx\nEOF", "cat <<X > f\nx\nX", True),
    ("shell", "FOO=1 make", "env FOO=1 make", True),
    ("search_query", "Python async tutorials", "tutorial async python", True),
    ("search_query", "cheap hotels near station", "cheap hotels", False),
    ("search_query", "hotels paris", "hotels london", False),
    ("search_query", '"exact phrase" x', "exact phrase x", False),
    ("url", "http://www.example.org:80/a?b=1&c=2&utm_source=x", "https://example.org/a?c=2&b=1", True),
    ("url", "https://example.org/a", "https://example.org/a/", False),
    ("sql", "select a from t where b = 1", "SELECT a FROM t -- x\nWHERE b=1", True),
    ("sql", "select a from t", "select b from t", False),
    ("sql", "select 1; select 2", "select 2; select 1", False),
    ("number", "1,234.5", "$1234.50", True),
    ("number", "0.5", "1/2", True),
    ("number", "50%", "0.5", True),
    ("number", "the answer is 42", "42", True),
    ("number", "\\boxed{42} since 3", "42", True),
    ("json", '{"a":1,"b":2}', '{"b":2.0,"a":1}', True),
    ("json", "[1,2]", "[2,1]", False),
    ("json", "true", "1", False),
    ("text", "Your order A-1 ships on Monday.", "Order A-1 will ship Monday.", True),
    ("text", "Your order ships on Monday.", "Your order does not ship on Monday.", False),
    ("python", "def f():\n    'doc'\n    return 1  # x", "def f():\n  return (1)", True),
]


def words(line):
    return " ".join(line.split())


def test_the_page_opens_with_a_command_and_marks_its_commands():
    assert BLOCKS[0][0] == "sh" and BLOCKS[0][1].startswith("# run by tests\n")
    assert len(COMMANDS) >= 7 and sum(bool(shown) for *_, shown in COMMANDS) >= 6


@pytest.mark.parametrize("command, code, shown", COMMANDS, ids=range(len(COMMANDS)))
def test_a_command_prints_what_the_page_shows(tmp_path, command, code, shown):
    environment = {**os.environ, "OUT": str(tmp_path), "PYTHONPATH": ""}
    script = command.replace(".venv/bin/python", sys.executable)
    words_of_bash = ["bash", "-euc", script]
    done = subprocess.run(words_of_bash, cwd=REPOSITORY, env=environment, capture_output=True, text=True, timeout=60)
    assert done.returncode == code, done.stdout + done.stderr
    printed = {words(line) for line in done.stdout.splitlines()}
    assert [line for line in shown.splitlines() if words(line) not in printed] == [], done.stdout


CODE = [text for kind, text in BLOCKS if kind == "python"]


def test_the_code_on_the_page_is_the_examples():
    example = ast.parse((REPOSITORY / "docs" / "examples" / "pipetting.py").read_text())
    shown = [node for text in CODE for node in ast.parse(text).body]
    assert {ast.unparse(node) for node in shown if isinstance(node, ast.ClassDef)} == {
        ast.unparse(node) for node in example.body if isinstance(node, ast.ClassDef)
    }
    rest = {ast.unparse(node) for node in example.body}
    assert [node for node in shown if not isinstance(node, ast.ImportFrom) and ast.unparse(node) not in rest] == []


@pytest.mark.parametrize("blocks, name", [(1, "FirstTry"), (2, "PipettingVerifier"), (3, "OverRobust")])
def test_the_code_on_the_page_runs_as_it_is_copied(tmp_path, monkeypatch, blocks, name):
    module = f"copied_from_the_page_{blocks}"
    (tmp_path / f"{module}.py").write_text("\n\n".join(CODE[:blocks]))
    monkeypatch.syspath_prepend(str(tmp_path))
    run = VerifierConfig(name=f"{module}:{name}", workers=0)
    rows = list(RowReader(REPOSITORY / "docs" / "examples" / "pipetting_answers.jsonl", run, None))
    verifier = build_verifier(run)
    rewards = [verifier.verify(replace(row.attempt, items=items_of(row.attempt.expert))).reward for row in rows]
    assert rewards == [1.0] * 9
    own = {"count": "strict"} if name == "OverRobust" else {"well_order": True}
    assert build_verifier(run.model_copy(update={"params": own})).verify(rows[0].attempt).reward == 0
    assert verifier.verify(rows[0].attempt, own).reward == 0
    with pytest.raises(ValueError, match=r"verifier\.params\.wellorder: Extra inputs"):
        build_verifier(run.model_copy(update={"params": {"wellorder": True}}))


def test_every_verifier_is_on_the_page():
    table = PAGE.partition("## Which one")[2].partition("##")[0]
    for name, presets in VERIFIERS.items():
        (row,) = [line for line in table.splitlines() if line.startswith("|") and f"`{name}`" in line.split("|")[1]]
        assert row.split("|")[2].strip() == ", ".join(presets), name


def test_every_reason_is_on_the_page():
    section = PAGE.partition("## Reasons")[2].partition("\n## ")[0]
    told = set(re.findall(r"`([a-z_]+)`", section))
    trees = [ast.parse(path.read_text()) for path in (REPOSITORY / "pivotrl" / "verifiers").rglob("*.py")]
    places = {"Verdict": 1, "Difference": 0} | dict(found for tree in trees for found in helpers_of(tree))
    reasons = {reason for tree in trees for reason in reasons_of(tree, places)}
    assert {"_shown", "other"} <= places.keys() and {"other_flags", "other_keys", "format"} <= reasons
    assert len(reasons) > 50 and sorted(reasons - told) == []


def helpers_of(tree):
    """Functions that make a verdict or a difference of a `reason` which they are given, and where they have it."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            names = [argument.arg for argument in node.args.args if argument.arg not in ("self", "cls")]
            if "reason" in names:
                yield node.name, names.index("reason")


def reasons_of(tree, places):
    """The constants that stand where a verdict, a difference or a helper has its reason, and what a variable or a
    parameter of that name is given."""
    for node in ast.walk(tree):
        given = []
        if isinstance(node, ast.Call):
            name = node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")
            given = [keyword.value for keyword in node.keywords if keyword.arg == "reason"]
            given += node.args[places[name] :][:1] if name in places else []
        elif isinstance(node, ast.Assign) and any(getattr(target, "id", "") == "reason" for target in node.targets):
            given = [node.value]
        elif isinstance(node, ast.FunctionDef):
            arguments = zip(reversed(node.args.args), reversed(node.args.defaults))
            given = [default for argument, default in arguments if argument.arg == "reason"]
        for value in given:
            yield from (text for text in constants(value) if re.fullmatch("[a-z]+(_[a-z]+)*", text))


def constants(node):
    """The strings that a value may be; a condition's own are none of them."""
    if isinstance(node, ast.IfExp):
        return [*constants(node.body), *constants(node.orelse)]
    if isinstance(node, ast.BoolOp):
        return [text for value in node.values for text in constants(value)]
    return [node.value] if isinstance(node, ast.Constant) and isinstance(node.value, str) else []


@pytest.mark.parametrize("kind, expected, actual, same", CLAIMS)
def test_what_the_page_takes_for_the_same(kind, expected, actual, same):
    # An argument must be the number alone; the page speaks of answers in text.
    compare = number.compare if kind == "number" else comparator(kind)
    assert (compare(expected, actual) is None) == same
    assert (compare(actual, expected) is None) == same


def test_the_table_of_parameters_is_current():
    assert reference.with_table(PAGE) == PAGE, "run: python -m pivotrl.verifiers.reference docs/verifiers.md"
    with pytest.raises(ValueError, match="no place"):
        reference.with_table("# Verifiers\n")
