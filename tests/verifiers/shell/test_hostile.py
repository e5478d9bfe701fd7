"""Whatever a model writes is compared soon, and never run."""

import os
import subprocess
import sys
import time

import pytest

from pivotrl.verifiers.attempt import Attempt
from pivotrl.verifiers.base import VerifierConfig
from pivotrl.verifiers.registry import build_verifier
from pivotrl.verifiers.shell.compare import LONGEST_COMMAND, canonical, compare

LIMIT = 1.5  # seconds; the pool's own limit is 2

HOSTILE = {
    "1 MB": "ls " * 350_000,
    "nested $(": "$(" * 100_000,
    "nested ${": "${" * 100_000,
    "nested (": "(" * 100_000,
    "closed": "(" * 50_000 + ")" * 50_000,
    "quotes": "\"'" * 100_000,
    "backquotes": "`" * 100_001,
    "here-document without an end": "cat <<EOF\n" + "x\n" * 5000,
    "many here-documents": "cat <<E\n" * 2000,
    "a line of them": "cat " + "<<E " * 2000 + "\n",
    "zero bytes": "ls\x00" * 1000,
    "surrogates": "ls \ud800\udfff" * 1000,
    "controls": "ls \x1b[31m\x07\x08",
    "pipes": "a|" * 9_000,
    "lists": "a&&" * 2_600 + "a",
    "negations": "! " * 3_900 + "a",
    "garbage": ")$x" * 2_600,
    "arrays": "x=(" * 1_400,
    "sudo": "sudo " * 1_500 + "ls",
    "xargs": "xargs " * 1_300 + "ls",
    "env": "env A=1 " * 900 + "ls",
    "directories": "cd x;" * 1_500 + "ls",
    "assignments": "a=b " * 1_900 + "ls",
    "find": "find . " + "! " * 3_900 + "-name x",
    "shells": "bash -c " * 900 + "ls",
    "quoted shells": "bash -c '" * 20 + "ls" + "'" * 20,
    "steps up": "cat " + "../" * 2_600,
    "private use": "cat < \ue0000\ue001 <<E\nx\nE\n",
    "braces": "ls " + "{a," * 1_400 + "}" * 1_400,
    "substitutions": "$(" * 30 + "ls" + ")" * 30,
    "backslashes": "echo " + "\\" * 7_001,
    "dollars": "echo " + "$" * 7_000,
    "no-break spaces": "ls\u00a0" * 1000,
    "operands": "rm " + "a/b " * 1_900,
}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_bounded(text):
    start = time.process_time()
    canonical(text)
    canonical(text[: LONGEST_COMMAND - 10])
    assert compare("ls", text) is not None
    assert compare(text, "ls") is not None
    assert compare(text, text + "x") is not None
    assert compare(text, text) is None
    assert time.process_time() - start < 2 * LIMIT


@pytest.mark.parametrize("name", ["shell", "terminal_functional"])
def test_verifiers_give_verdicts(name):
    verifier = build_verifier(VerifierConfig(name=name))
    call = {"type": "function_call", "name": "bash", "arguments": '{"command": "ls"}'}
    message = {"type": "message", "content": "x\n```bash\nls\n```"}
    answer = {"type": "message", "content": '{"analysis": "", "plan": "", "commands": [{"keystrokes": "ls\\n"}]}'}
    odd = [None, 1, [], {}, {"type": "function_call"}, {"type": "function_call", "name": [], "arguments": 3}]
    odd += [{"type": "message", "content": value} for value in (None, [], 5, "", "\ud800", "[" * 100_000, "{}", "[1]")]
    odd += [{**call, "arguments": value} for value in ("", "{", "[" * 100_000, '{"command": {"a": [1]}}', "NaN")]
    odd += [{**call, "name": name} for name in ("", "execute_bash", "\ud800")]
    for expert in (call, message, answer, {"type": "function_call_batch", "calls": [call, call]}):
        for item in odd:
            for text in (None, "", "<think>", "\ud800", "x</think></think>"):
                verdict = verifier.verify(Attempt(expert, [item], text=text, metadata={"harness": ["x"]}))
                assert verdict.reward in (0.0, 1.0) and verdict.reason


def test_nothing_is_run(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)

    def refuse(*arguments, **keywords):
        raise AssertionError("something was run")

    for module, name in (
        (subprocess, "Popen"),
        (os, "system"),
        (os, "popen"),
        (os, "execv"),
        (os, "fork"),
        (os, "posix_spawn"),
    ):
        monkeypatch.setattr(module, name, refuse)
    monkeypatch.setattr("builtins.eval", refuse)
    monkeypatch.setattr("builtins.exec", refuse)
    monkeypatch.setattr("builtins.open", refuse)
    for command in (
        "touch SENTINEL",
        "echo $(touch SENTINEL)",
        "echo `touch SENTINEL`",
        "bash -c 'touch SENTINEL'",
        "cat <<EOF\n$(touch SENTINEL)\nEOF",
        "> SENTINEL",
        "x=$(touch SENTINEL) ls",
        "find . -exec touch SENTINEL ';'",
    ):
        assert compare("touch SENTINEL; ls", command) is not None
        assert compare(command, command + " ") is None
        for name in ("shell", "terminal_functional"):
            call = {"type": "function_call", "name": "bash", "arguments": '{"command": "touch  SENTINEL"}'}
            build_verifier(VerifierConfig(name=name)).verify(Attempt(call, [{**call, "arguments": "{}"}, call]))
    assert list(tmp_path.iterdir()) == []


ASTRAL = """
import random, sys
import hypothesis
from pivotrl.verifiers.shell.compare import canonical
chance = random.Random(int(sys.argv[1]))
for _ in range(6000):
    far = [chr(chance.randint(0x10000, 0x10ffff)) for _ in range(2)]
    some = [*far, "{", "c", "V", "}", "..", chr(0xff), "$"]
    canonical("".join(chance.choice(some) for _ in range(chance.randint(2, 7))))
"""


def test_characters_beyond_the_tables_of_c_do_not_kill_the_process():
    for seed in "123":  # where memory lies differs from process to process
        assert subprocess.run([sys.executable, "-c", ASTRAL, seed], timeout=60).returncode == 0


def test_such_characters_are_still_compared():
    assert compare("echo \U0001f600 'a b'", 'echo "\U0001f600" "a b"') is None
    assert compare("echo \U0001f600", "echo \U0001f601").reason == "other_operands"
    assert compare("echo \u4e2d\u00e9 > f", "echo '\u4e2d\u00e9' >f") is None
    assert compare("cat <<E\n\U0001f600\nE", "cat <<E\n\U0001f601\nE").reason == "other_redirect"
