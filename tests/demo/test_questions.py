"""The files of questions, and the harder families' answers by other means than those that made them."""

import json
import subprocess
import sys

import pytest

from pivotrl.demo.families import FAMILIES, questions
from pivotrl.demo.hard_families import HARD_FAMILIES
from pivotrl.demo.questions import rows, write
from tests.demo.test_families import independent


def hard(family: str, question: str) -> str:
    words = question.split()
    if family == "subtract":
        return str(int(words[3]) - int(words[1]))
    if family == "lookup":
        return dict(zip(words[4::2], words[5::2], strict=True))[words[2]]
    return independent(family, question)


@pytest.mark.parametrize("family", HARD_FAMILIES)
def test_answers_are_right(family):
    pairs = questions(family, 300, "test", HARD_FAMILIES)
    assert [answer for _, answer in pairs] == [hard(family, question) for question, _ in pairs]
    assert len(set(pairs)) > 250


def test_rows_are_what_the_evaluation_reads(tmp_path):
    write(tmp_path / "new" / "q.jsonl", 7, "x")
    found = [json.loads(line) for line in (tmp_path / "new" / "q.jsonl").read_text().splitlines()]
    assert found == list(rows(7, "x")) and len(found) == 7 * len(FAMILIES)
    for row in found:
        assert set(row) == {"family", "messages", "answer"}
        (message,) = row["messages"]
        assert message["role"] == "user"
        assert (message["content"], row["answer"]) in questions(row["family"], 7, "x")


def test_command(tmp_path):
    out = tmp_path / "q.jsonl"
    command = [sys.executable, "-m", "pivotrl.demo.questions", "--out", str(out), "--count", "3", "--seed", "5"]
    done = subprocess.run([*command, "--hard"], capture_output=True, text=True, check=True, timeout=60)
    assert [json.loads(line) for line in out.read_text().splitlines()] == list(rows(3, "5", HARD_FAMILIES))
    assert "6 families, 3 questions each" in done.stdout
    bad = subprocess.run([*command, "--count", "0"], capture_output=True, text=True, timeout=60)
    assert bad.returncode == 2 and "--count" in bad.stderr
