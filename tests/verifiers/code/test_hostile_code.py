"""Whatever a model writes gets a verdict, soon; nothing of it is run, imported or opened."""

import builtins
import io
import json
import os
import subprocess
import time

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pivotrl.verifiers.attempt import Attempt
from pivotrl.verifiers.base import VerifierConfig
from pivotrl.verifiers.code.source import compare
from pivotrl.verifiers.registry import build_verifier

VERIFIERS = {name: build_verifier(VerifierConfig(name=name)) for name in ("swe", "code_edit")}
PATH = "/repo/src/m.py"


def call(name, **arguments):
    return {"type": "function_call", "name": name, "arguments": json.dumps(arguments)}


HEADER = "--- a/src/m.py\n+++ b/src/m.py\n"
EXPERTS = [
    call("str_replace_editor", command="str_replace", path=PATH, old_str="x = 1", new_str="x = 2"),
    call("str_replace_editor", command="view", path=PATH, view_range=[1, 10]),
    call("apply_patch", patch=HEADER + "@@ -1 +1 @@\n-x = 1\n+x = 2\n"),
    call("write_file", path=PATH, content="x = 2"),
    call("bash", command="cat src/m.py"),
    call("grep", pattern="x", path="src"),
    call("think", thought="x"),
    call("my_tool", a=[1, {"b": "c"}]),
]
NAMES = ["str_replace_editor", "apply_patch", "write_file", "bash", "grep", "think", "MultiEdit", "edit", "my_tool"]
N = 16_000
SOURCES = {
    "brackets": "(" * N,
    "closed brackets": "(" * (N // 2) + ")" * (N // 2),
    "minus": "-" * N + "1",
    "attributes": "a" + ".b" * (N // 2),
    "sums": "a" + "+a" * (N // 2),
    "calls": "f" + "()" * (N // 2),
    "lambdas": "lambda:" * (N // 7) + "1",
    "elif": "if a:\n b\n" + "elif a:\n b\n" * (N // 12),
    "digits": "x = " + "9" * N,
    "hexadecimal": "x = 0x" + "f" * N,
    "quotes": "'" * N,
    "backslashes": "\\" * N,
    "escapes": '"\\' * (N // 2),
    "f-strings": "f'" + "{a}" * (N // 3) + "'",
    "zero bytes": "\x00" * N,
    "surrogates": "x = '\ud800'" * (N // 10),
    "line ends": "\n" * N,
    "indentation": "\n".join(" " * index + "if a:" for index in range(400)),
    "arrows": "x=>" * (N // 3),
    "generics": "a<b<" * (N // 4),
    "comments": "/*" * (N // 2),
    "hashes": " #" * (N // 2),
    "words": "a " * (N // 2),
    "heredocs": "a <<E\n" * (N // 6),
    "nested lists": "[" * (N // 2) + "]" * (N // 2),
    "exponents": "[1e999999999999999999999, 1e999999999]",
    "open lists": "a" + "]" * (N // 2) + ": " + "[" * (N // 2),
    "entries": "- " * (N // 2),
    "dotted keys": ("a" + ".b" * 900 + "=1\n") * (N // 1800),
    "aliases": "- &a x\n- *a\n" * (N // 12),
    "controls": "".join(map(chr, range(32))) * 100,
}


LANGUAGES = ["python", "tsx", "rust", "java", "cpp", "bash", "json", "yaml", "toml", "css", None]


@pytest.mark.parametrize("case", SOURCES)
def test_hostile_sources_are_compared_soon(case):
    text = SOURCES[case]
    start = time.process_time()
    for language in LANGUAGES:
        assert compare("x = 1\n", text, language) is not None
        assert compare(text, "x = 1\n", language) is not None
        assert compare(text, "".join(text), language) is None
    assert time.process_time() - start < 4


@pytest.mark.parametrize("language", ["python", "cpp", "css"])
def test_a_text_of_the_limit_s_length_is_compared_soon(language):
    text = "f(a, [1, 2], 'b')\n" * 10_000
    start = time.process_time()
    assert compare(text, text + "f(b)\n", language) is not None
    assert compare(text, text + "\n\n", language) is None
    assert time.process_time() - start < 4


@pytest.mark.parametrize("case", SOURCES)
def test_hostile_edits_get_a_verdict(case):
    text = SOURCES[case]
    lines = text.replace("\n", "\n+")
    actual = [
        call("write_file", path=PATH, content=text),
        call("str_replace_editor", command="str_replace", path=PATH, old_str="x = 1", new_str=text),
        call("apply_patch", patch=f"--- a/src/m.py\n+++ b/src/m.py\n@@ -1 +1 @@\n-x = 1\n+{lines}"),
    ]
    start = time.process_time()
    for expert in EXPERTS[:4]:
        for item in actual:
            assert VERIFIERS["swe"].verify(Attempt(expert, [item])).reward == 0
    assert time.process_time() - start < 4


GROWING = {"old_string": "x", "new_string": "xx", "replace_all": True}
HOSTILE = {
    "patch of many hunks": call("apply_patch", patch=HEADER + "@@ -1 +1 @@\n-a\n+b\n" * 20_000),
    "patch of many files": call("apply_patch", patch=HEADER + "@@ -1 +1 @@\n-a\n+b\n" * 8_000),
    "patch of equal lines": call("apply_patch", patch=HEADER + ("@@ -1 +1 @@\n" + "-a\n+a\n-b\n" * 300) * 200),
    "patch of headers": call("apply_patch", patch="--- a\n+++ b\n" * 30_000),
    "patch of blank lines": call("apply_patch", patch="*** Begin Patch\n*** Update File: src/m.py\n" + "\n" * 300_000),
    "patch of moves": call("apply_patch", patch="rename to a\n" * 30_000),
    "huge hunk numbers": call("apply_patch", patch=HEADER + "@@ -999999999,1 +1 @@\n-x = 1\n+x = 3\n"),
    "many replacements": call("MultiEdit", path=PATH, edits=[{"old_string": "x", "new_string": "xx"}] * 200),
    "growing replacements": call("MultiEdit", path=PATH, edits=[GROWING] * 60),
    "too many replacements": call("MultiEdit", path=PATH, edits=[{"old_string": "x", "new_string": "y"}] * 20_000),
    "edits of odd types": call("MultiEdit", path=PATH, edits=[None, 1, [], {"old_string": {}}]),
    "path of a list": call("write_file", path=["a"], content="x"),
    "path that is long": call("write_file", path="/a" * 100_000, content="x"),
    "path of dots": call("write_file", path="../" * 30_000 + "etc/passwd", content="x"),
    "path of surrogates": call("write_file", path="\ud800/\udfff", content="x"),
    "range of huge numbers": call("str_replace_editor", command="view", path=PATH, view_range=[1, 10**300]),
    "range of floats": call("str_replace_editor", command="view", path=PATH, view_range=[1e308, float("nan")]),
    "range of text": call("str_replace_editor", command="view", path=PATH, view_range="[" * 90),
    "insert at a huge line": call("str_replace_editor", command="insert", path=PATH, insert_line=10**30, new_str="x"),
    "command of a dict": call("str_replace_editor", command={"a": 1}, path=PATH),
    "command of quotes": call("bash", command="grep -rn " + "'" * 4000),
    "command of cats": call("bash", command="cat " * 1000),
    "pattern": call("grep", pattern="(a+)+$" * 1000, path="src"),
    "deep": {"type": "function_call", "name": "my_tool", "arguments": '{"a":' + "[" * 900 + "]" * 900 + "}"},
    "deeper": {"type": "function_call", "name": "my_tool", "arguments": "[" * 200_000},
    "no arguments": {"type": "function_call", "name": "write_file"},
    "no name": {"type": "function_call", "arguments": "{}"},
    "name of 10 MB": {"type": "function_call", "name": "a__" * 3_000_000, "arguments": "{}"},
    "10 MB": call("write_file", path=PATH, content="x = 1\n" * 1_600_000),
}  # fmt: skip


def history(text, path=PATH):
    function = {"name": "create_file", "arguments": json.dumps({"path": path, "content": text})}
    return [
        {"role": "assistant", "content": "", "tool_calls": [{"id": "c", "function": function}]},
        {"role": "tool", "content": "File created successfully.", "tool_call_id": "c"},
    ]


@pytest.mark.parametrize("case", HOSTILE)
@pytest.mark.parametrize("name", VERIFIERS)
def test_hostile_calls_get_a_verdict(name, case):
    item = HOSTILE[case]
    histories = [[], history("x = 1\n"), history("a\n" * 20_000 + "x = 1\n")]
    for expert in EXPERTS:
        for messages in histories if expert is EXPERTS[0] else histories[1:2]:
            start = time.process_time()
            verdict = VERIFIERS[name].verify(
                Attempt(expert, [item, *[item] * (40 if expert is EXPERTS[0] else 0)], messages=messages)
            )
            assert verdict.reward == 0
            assert time.process_time() - start < 2, expert


def test_floods_of_equal_files_of_a_dear_language_are_bounded():
    path, source = "/repo/src/m.js", "x = 1\n" + "f(a,[1,2],b);\n" * 1300
    expert, *flood = [
        call("str_replace_editor", command="str_replace", path=path, old_str="x = 1", new_str="x = 2" + "\n" * index)
        for index in range(38)
    ]
    start = time.process_time()
    found = VERIFIERS["swe"].verify(Attempt(expert, flood, messages=history(source, path)))
    assert 0 < found.reward < 0.1
    assert time.process_time() - start < 2


@pytest.mark.parametrize("value", [None, 5, "x", {"a": 1}, [None, 5, []]])
def test_rows_of_odd_types_get_a_verdict(value):
    for verifier in VERIFIERS.values():
        for expert in (EXPERTS[0], EXPERTS[5], {"type": "message", "content": "x"}):
            assert verifier.verify(Attempt(expert, value, None, value, value, value)).reward == 0
            assert verifier.verify(Attempt(expert, [expert], None, value, value, value)).reward == 1


def test_floods_of_edits_of_a_large_file_are_bounded():
    messages = history("".join(f"value_{index} = function({index}, [1, 2, 3])\n" for index in range(2200)) + "x = 1\n")
    flood = [
        call("str_replace_editor", command="str_replace", path=PATH, old_str="x = 1", new_str=f"x = {index}")
        for index in range(3, 200)
    ]
    start = time.process_time()
    assert VERIFIERS["swe"].verify(Attempt(EXPERTS[0], flood, messages=messages)).reward == 0
    assert time.process_time() - start < 4
    assert VERIFIERS["swe"].verify(Attempt(EXPERTS[0], [EXPERTS[2]], messages=messages)).reward == 1


def test_nothing_is_run_imported_or_opened(monkeypatch, tmp_path):
    sentinel = tmp_path / "sentinel"
    code = f"__import__('os').system('touch {sentinel}')\nopen({str(sentinel)!r}, 'w')\nimport antigravity"
    items = [
        call("write_file", path=f"../../../..{sentinel}", content=code),
        call("str_replace_editor", command="create", path=str(sentinel), file_text=code),
        call("str_replace_editor", command="str_replace", path=PATH, old_str="x = 1", new_str=code),
        call("apply_patch", patch=f"--- /dev/null\n+++ {sentinel}\n@@ -0,0 +1 @@\n+{code.splitlines()[0]}\n"),
        call("bash", command=f"touch {sentinel}; python -c {code!r}"),
        call("str_replace_editor", command="view", path="../../etc/passwd"),
        call("read_file", path="/etc/passwd"),
    ]
    experts = [*EXPERTS, *items]
    for name in VERIFIERS:  # what is imported on first use is imported here
        for expert in experts:
            for item in items:
                VERIFIERS[name].verify(Attempt(expert, [item], messages=history("x = 1\n")))

    def refuse(*args, **kwargs):
        raise AssertionError(f"called with {args}")

    for module, attribute in [
        (builtins, "open"), (builtins, "exec"), (builtins, "eval"), (io, "open"), (os, "open"), (os, "system"),
        (os, "stat"), (os, "listdir"), (subprocess, "Popen"), (builtins, "__import__"),
    ]:  # fmt: skip
        monkeypatch.setattr(module, attribute, refuse)
    found = []
    for verifier in VERIFIERS.values():
        for expert in experts:
            for item in items:
                found.append(verifier.verify(Attempt(expert, [item], messages=[*history("x = 1\n")])).reward)
    monkeypatch.undo()
    assert set(found) == {0.0, 1.0} and not sentinel.exists()


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=4,
)
KEYS = ["command", "path", "old_str", "new_str", "file_text", "insert_line", "view_range", "edits", "patch", "pattern"]
KEYS += ["content", "thought", "a"]
TEXTS = ["str_replace", "view", PATH, "x = 1", "insert", "create", "@@ -1 +1 @@\n-a\n+b", "[1, 5]", "ls"]
contents = st.sampled_from(TEXTS)
arguments = st.dictionaries(st.sampled_from(KEYS), values | contents, max_size=5)


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.sampled_from(NAMES), arguments, st.sampled_from(NAMES), arguments, st.booleans())
def test_any_call_equals_itself_and_none_raises(name, expected, other, actual, known):
    expert = call(name, **expected)
    messages = history("x = 1\n") if known else []
    for verifier in VERIFIERS.values():
        assert verifier.verify(Attempt(expert, [call(name, **expected)], messages=messages)).reward == 1
        assert verifier.verify(Attempt(expert, [call(other, **actual)], messages=messages)).reward in (0, 1)


@settings(max_examples=100, deadline=None)
@given(st.lists(values, max_size=3), st.lists(values | st.just({"function": {"parameters": 5}}), max_size=2))
def test_odd_items_and_tools_do_not_raise(items, tools):
    for verifier in VERIFIERS.values():
        assert verifier.verify(Attempt(EXPERTS[0], items, tools=tools)).reward == 0
        assert verifier.verify(Attempt({"type": "message", "content": "x"}, items, tools=tools)).reward == 0
        assert verifier.verify(Attempt(EXPERTS[0], [EXPERTS[0]], tools=tools)).reward == 1
