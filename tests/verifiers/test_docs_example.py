"""docs/verifiers.md: its commands run and print what it shows, its code is the example's, its table is current."""

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from pivotrl.verifiers import reference
from pivotrl.verifiers.registry import VERIFIERS

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


def test_the_code_on_the_page_is_the_examples():
    example = ast.parse((REPOSITORY / "docs" / "examples" / "pipetting.py").read_text())
    classes = {node.name: node for node in example.body if isinstance(node, ast.ClassDef)}
    shown = [ast.parse(text).body[0] for kind, text in BLOCKS if kind == "python"]
    assert [node.name for node in shown] == ["FirstTry", "PipettingVerifier"]
    for node in shown:
        (method,) = node.body
        methods = {inner.name: inner for inner in classes[node.name].body if isinstance(inner, ast.FunctionDef)}
        assert ast.unparse(method) == ast.unparse(methods[method.name])


def test_every_verifier_is_on_the_page():
    table = PAGE.partition("## Which one")[2].partition("##")[0]
    for name, presets in VERIFIERS.items():
        (row,) = [line for line in table.splitlines() if line.startswith("|") and f"`{name}`" in line.split("|")[1]]
        assert row.split("|")[2].strip() == ", ".join(presets), name


def test_the_table_of_parameters_is_current():
    assert reference.with_table(PAGE) == PAGE, "run: python -m pivotrl.verifiers.reference docs/verifiers.md"
    with pytest.raises(ValueError, match="no place"):
        reference.with_table("# Verifiers\n")
