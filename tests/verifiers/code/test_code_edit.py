"""Edits earn by what they leave in the file."""

import json

import pytest

from pivotrl.verifiers.attempt import Attempt
from pivotrl.verifiers.base import VerifierConfig
from pivotrl.verifiers.registry import build_verifier

EDIT = build_verifier(VerifierConfig(name="code_edit"))
PATH = "/repo/src/m.py"
FILE = "import os\n\n\ndef f(x):\n    return x\n\n\ndef g(x):\n    # add\n    return x + 1\n"
AFTER = FILE.replace("x + 1", "x + 2")


def call(name, **arguments):
    return {"type": "function_call", "name": name, "arguments": json.dumps(arguments)}


def editor(command, **arguments):
    return call("str_replace_editor", command=command, path=arguments.pop("path", PATH), **arguments)


def replace(old, new, **more):
    return editor("str_replace", old_str=old, new_str=new, **more)


def patch(body, path="src/m.py"):
    return call("apply_patch", patch=f"--- a/{path}\n+++ b/{path}\n{body}")


def history(text=FILE, path=PATH):
    function = {"name": "create_file", "arguments": json.dumps({"path": path, "content": text})}
    return [
        {"role": "user", "content": "Fix it."},
        {"role": "assistant", "content": "", "tool_calls": [{"id": "c", "type": "function", "function": function}]},
        {"role": "tool", "content": "File created successfully.", "tool_call_id": "c"},
    ]


EXPERT = replace("x + 1", "x + 2")
KNOWN_SAME = [
    replace("    return x + 1", "    return x + 2"),
    replace("    # add\n    return x + 1", "    return (x+2)  # more"),
    replace("def g(x):\n    # add\n    return x + 1", 'def g(x):\n    """Add."""\n    return x + 2'),
    editor("create", file_text=AFTER),
    editor("create", file_text="import os\ndef f(x): return x\ndef g(x): return x + 2"),
    call("Edit", file_path="src/m.py", old_string="1", new_string="2"),
    call("edit", start_line=10, end_line=10, replacement_text="    return x + 2", path=PATH),
    patch("@@ -8,3 +8,3 @@\n def g(x):\n     # add\n-    return x + 1\n+    return x + 2\n"),
    patch("@@ -1,2 +1,2 @@\n     # add\n-    return x + 1\n+    return 2 + x\n".replace("2 + x", "x + 2")),
    call("apply_patch", input=f"*** Begin Patch\n*** Update File: {PATH}\n@@ def g(x):\n     # add\n-    return x + 1\n+    return x + 2\n*** End Patch"),  # noqa: E501
]  # fmt: skip
KNOWN_OTHER = [
    (replace("x + 1", "x + 3"), "other_edit"),
    (replace("x + 1", "2 + x"), "other_edit"),
    (replace("x + 1", "x + 1"), "other_edit"),
    (replace("return x", "return x + 2"), "edit_does_not_apply"),
    (replace("x  + 1", "x + 2"), "edit_does_not_apply"),
    (replace("    return x + 1", "  return x + 2\n  y"), "other_edit"),
    (editor("create", file_text="def g(x):\n    return x + 2\n"), "other_edit"),
    (replace("x + 1", "x + 2", path="/repo/src/n.py"), "other_target"),
    (replace("x + 1", "x + 2", path="/lib/src/m.py"), "other_target"),
    (call("str_replace_editor", command="str_replace", path=PATH, new_str="x + 2"), "missing_argument"),
    (editor("insert", insert_line=99, new_str="a"), "edit_does_not_apply"),
    (patch("@@ -8,2 +8,2 @@\n def h(x):\n-    return x + 1\n+    return x + 2\n"), "edit_does_not_apply"),
    (editor("undo_edit"), "other_edit"),
    (replace("x + 1", "x + 2", path=PATH + "/"), "other_target"),
    (call("str_replace_editor", path=PATH, old_str="x + 1", new_str="x + 2"), "missing_argument"),
    (call("str_replace_based_edit_tool", path=PATH, old_str="x + 1", new_str="x + 2"), "missing_argument"),
    (editor("str_replace", old_string="x + 1", new_string="x + 2"), "unknown_argument"),
    (replace("x + 1", "x + 2", file_path="/repo/src/n.py"), "unknown_argument"),
    (editor("frobnicate", old_str="x + 1", new_str="x + 2"), "other_edit"),
    (call("bash", command="sed -i s/1/2/ src/m.py"), "other_tool"),
]


@pytest.mark.parametrize("actual", KNOWN_SAME)
def test_a_known_file_may_be_edited_in_any_form(actual):
    for expert, model in ((EXPERT, actual), (actual, EXPERT)):
        verdict = EDIT.verify(Attempt(expert, [model], messages=history()))
        assert verdict.reward == 1, verdict


@pytest.mark.parametrize("actual, reason", KNOWN_OTHER)
def test_what_leaves_another_file_earns_nothing(actual, reason):
    verdict = EDIT.verify(Attempt(EXPERT, [actual], messages=history()))
    assert (verdict.reward, verdict.reason) == (0, reason), verdict


UNKNOWN = [
    (EXPERT, replace("x + 1", "x+2"), 1),
    (EXPERT, replace("x + 1", "(x + 2)", path="src/m.py"), 1),
    (EXPERT, replace("    return x + 1", "    return x + 2"), 0),  # what stands around it is not known
    (replace("    return a", "    return b"), replace("    return a", "return b"), 0),
    (replace("    return a", "    return b"), replace("return a", "return b"), 1),
    (replace("return a", "return b"), replace("    return a", "    return b"), 1),
    (replace("    a = 1\n    return a", "    a = 2\n    return a"), replace("a = 1", "a = 2"), 1),
    (editor("insert", insert_line=3, new_str="    x = 1"), editor("insert", insert_line=3, new_str="x = 1"), 0),
    (replace("    return x + 1", "    return x + 2"), replace("+ 1", "+ 2"), 0),  # may stand in other lines too
    (replace("    return x + 1", "    return x + 2"), replace("return x + 1", "return x + 2"), 1),
    (replace("+ 1", "+ 2"), replace("+ 1", "+2"), 1),
    # Lines that are added need the expert's line before or behind them.
    (replace("a = 1", "a = 1\nx = 1"), replace("b = 1", "b = 1\nx = 1"), 0),
    (replace("a = 1", "a = 1\nx = 1"), replace("a = 1\nb = 1", "a = 1\nx = 1\nb = 1"), 1),
    (replace("a = 1\nb = 1", "a = 1\nx = 1\nb = 1"), replace("b = 1\nc = 1", "b = 1\nx = 1\nc = 1"), 0),
    (replace("a = 1\nb = 1", "a = 1\nx = 1\nb = 1"), replace("b = 1\nc = 1", "x = 1\nb = 1\nc = 1"), 1),
    (replace("a = 1", "a = 1\nx = 1"), patch("@@ -3 +3,2 @@\n a = 1\n+x = 1\n"), 1),
    (patch("@@ -3 +3,2 @@\n a = 1\n+x = 1\n"), patch("@@ -3 +3,2 @@\n b = 1\n+x = 1\n"), 0),
    (patch("@@ -3 +3,2 @@\n a = 1\n+x = 1\n"), patch("@@ -3 +3,2 @@\n+x = 1\n a = 1\n"), 0),
    (patch("@@ -3 +3,2 @@\n a = 1\n+x = 1\n"), patch("@@ -3,0 +4 @@\n+x = 1\n"), 1),
    (patch("@@ -3,0 +4 @@\n+x = 1\n"), patch("@@ -3,0 +4 @@\n+x=1\n"), 1),
    (patch("@@ -3,0 +4 @@\n+x = 1\n"), patch("@@ -30,0 +31 @@\n+x = 1\n"), 0),
    # Of two equal lines, the one between the expert's.
    (replace("def f():\n    a", "def f():\n    b"), replace("def g():\n    a", "def g():\n    b"), 0),
    (replace("a = 1\n", "a = 2\n"), replace("a = 1\n", "a = 2"), 0),  # the next line would be joined
    (replace("a = 1\nb = 1\nc = 1", "a = 1\nb = 2\nc = 1"), replace("b = 1", "b = 2"), 1),
    (replace("b = 1", "b = 2"), replace("a = 1\nb = 1\nc = 1", "a = 1\nb = 2\nc = 1"), 1),
    (replace("a = 1\nb = 1", "a = 1\nb = 2"), replace("b = 1\nc = 1", "b = 2\nc = 1"), 1),
    (replace("a = 1\nb = 1", "a = 1\nb = 2"), replace("b = 1\nc = 1", "b = 2\nc = 3"), 0),
    (replace("a = 1\nb = 1", "a = 1\nb = 2"), patch("@@ -7,2 +7,2 @@\n a = 1\n-b = 1\n+b = 2\n"), 1),
    (patch("@@ -7,2 +7,2 @@\n a = 1\n-b = 1\n+b = 2\n"), replace("b = 1", "b=2"), 1),
    (patch("@@ -7,2 +7,2 @@\n a = 1\n-b = 1\n+b = 2\n"), patch("@@ -8 +8 @@\n-b = 1\n+b = 3\n"), 0),
    (patch("@@ -1 +1 @@\n-a\n+b\n@@ -9 +9 @@\n-c\n+d\n"), patch("@@ -1 +1 @@\n-a\n+b\n"), 0),
    (editor("create", file_text="x = 1"), call("Write", file_path=PATH, content="x=1 # one\n"), 1),
    (editor("create", file_text="x = 1"), editor("create", file_text="x = 2"), 0),
    (editor("create", file_text="x = 1"), editor("create", file_text=""), 0),
    (editor("create", file_text="# only a comment"), editor("create", file_text=""), 0),
    (editor("create", file_text="# only a comment"), editor("create", file_text="#  only a  comment\n"), 1),
    (editor("insert", insert_line=3, new_str="x = 1"), editor("insert", insert_line=3, new_str="x=1"), 1),
    (editor("insert", insert_line=3, new_str="x = 1"), editor("insert", insert_line=4, new_str="x = 1"), 0),
    (editor("insert", insert_line=3, new_str="x = 1"), editor("insert", insert_line=3, text="x = 1"), 0),
    (editor("undo_edit"), editor("undo_edit", path="src/m.py"), 1),
    (replace("a", "b"), call("Edit", file_path=PATH, old_string="a", new_string="b", replace_all=True), 1),
    (call("Edit", file_path=PATH, old_string="a", new_string="b", replace_all=True), replace("a", "b"), 0),
    (replace("a = 1", "b = 1"), call("Edit", file_path=PATH, old_string="a", new_string="b", replace_all=True), 0),
    (replace("x = 1  # old", "x = 1  # new"), replace("x = 1  # old", "x = 1  # old"), 0),
    (replace("x = 1  # old", "x = 1  # new"), replace("x = 1  # old", "x = 1  #  new"), 1),
    (replace('"""A."""', '"""B."""'), replace('"""A."""', '"""C."""'), 0),
    (replace("a = 1", "a = 'x';", path="/r/a/m.js"), replace("a = 1", 'a = "x"', path="/r/a/m.js"), 1),
    (replace("a: 1", "a:\n  b: 1", path="/r/a/m.yml"), replace("a: 1", "a:\n    b: 1", path="/r/a/m.yml"), 1),
    (replace("a: 1", "a:\n  b: 1", path="/r/a/m.yml"), replace("a: 1", "a:\nb: 1", path="/r/a/m.yml"), 0),
    # Lines that stand further left than those before them, or behind the rest of a line, are where they are.
    (replace("    a\n", "    a\n\n  def h():\n    b\n"), replace("    a\n", "    a\n\ndef h():\n    b\n"), 0),
    (replace("x = 1", "x = 1\n        y = 2"), replace("x = 1", "x = 1\n    y = 2"), 0),
    (replace("x = 1", "x = 1\n        y = 2"), replace("x = 1", "x=1\n        y = 2"), 1),
    (replace("if a:\n    b()", "if a:\n    c()"), replace("if a:\n    b()", "if a:\n  c()"), 1),
    (replace('  "a "\n  "b"', '  "c "\n  "d"'), replace('  "a "\n  "b"', '  "z "\n  "d"'), 0),
    (replace("a: b", "a: 'c'", path="/r/a/m.yml"), replace("a: b", "a: c", path="/r/a/m.yml"), 1),
    (replace("a: b", "a: c", path="/r/a/m.yml/"), replace("a: b", "a: d", path="/r/a/m.yml/"), 0),
    (editor("view"), editor("view", path="src/m.py"), 1),
    (editor("view"), editor("view", path="src/n.py"), 0),
]  # fmt: skip


@pytest.mark.parametrize("expert, actual, reward", UNKNOWN)
def test_of_an_unknown_file_the_change_is_compared(expert, actual, reward):
    verdict = EDIT.verify(Attempt(expert, [actual]))
    assert verdict.reward == reward, verdict
    assert EDIT.verify(Attempt(actual, [actual])).reward == 1


def test_an_expert_s_edit_that_does_not_fit_what_is_known_is_compared_as_a_snippet():
    expert = replace("not there", "y = 1")
    assert EDIT.verify(Attempt(expert, [replace("not there", "y=1")], messages=history())).reward == 1
    assert EDIT.verify(Attempt(expert, [replace("x + 1", "y=1")], messages=history())).reward == 0


def test_each_file_of_a_patch_counts():
    one = "--- a/a/m.py\n+++ b/a/m.py\n@@ -1 +1 @@\n-x = 1\n+x = 2\n"
    two = "--- a/a/n.py\n+++ b/a/n.py\n@@ -1 +1 @@\n-y = 1\n+y = 2\n"
    both = call("apply_patch", patch=one + two)
    assert EDIT.verify(Attempt(both, [call("apply_patch", patch=two + one)])).reward == 1
    assert EDIT.verify(Attempt(both, [call("apply_patch", patch=one)])).reason == "other_edit"
    moved = call("apply_patch", patch="diff --git a/a/m.py b/a/n.py\nrename from a/m.py\nrename to a/n.py\n")
    other = call("apply_patch", patch="diff --git a/a/m.py b/a/o.py\nrename from a/m.py\nrename to a/o.py\n")
    assert EDIT.verify(Attempt(moved, [other])).reason == "other_target"


def test_of_one_file_s_replacements_the_order_is_free():
    one, two, three = ({"old_string": f"{name} = 1", "new_string": f"{name} = 2"} for name in "abc")
    nothing = {"old_string": "a = 2", "new_string": "a = 2"}
    expert = call("MultiEdit", file_path=PATH, edits=[one, two])
    known = history("a = 1\nb = 1\nc = 1\n")
    for edits, reward in [
        ([two, one], 1),
        ([one], 0),
        ([one, two, three], 0),
        ([one, one], 0),
        ([one, two, nothing], 0),
    ]:
        for messages in ([], known):
            actual = call("MultiEdit", file_path=PATH, edits=edits)
            assert EDIT.verify(Attempt(expert, [actual], messages=messages)).reward == reward, edits


def test_several_calls_all_count():
    batch = {"type": "function_call_batch", "calls": [EXPERT, replace("a", "b")]}
    assert EDIT.verify(Attempt(batch, [replace("a", "b"), EXPERT])).reason == "calls_match"
    assert EDIT.verify(Attempt(batch, [EXPERT])).reason == "number_of_calls"
    assert EDIT.verify(Attempt(batch, [EXPERT, EXPERT])).reward == 0
    assert EDIT.verify(Attempt(EXPERT, [EXPERT, EXPERT])).reason == "number_of_calls"


def test_a_diff_in_a_message():
    body = "```diff\n--- a/a/m.py\n+++ b/a/m.py\n@@ -1,2 +1,2 @@\n x = 0\n-x = 1\n+x = {}\n```"
    expert = {"type": "message", "content": "This does it:\n" + body.format(2)}

    def judge(text):
        return EDIT.verify(Attempt(expert, [{"type": "message", "content": text}]))

    assert judge("Try\n" + body.format("2  # two")).reward == 1
    assert judge(body.format(3)).reason == "other_edit"
    assert judge("x = 2").reason == "missing_argument"
    assert judge("").reason == "empty_message"
    prose = {"type": "message", "content": "Done."}
    assert EDIT.verify(Attempt(prose, [{"type": "message", "content": "Ready."}])).reward == 1


OPENED = [{"role": "tool", "content": "ok\n(Open file: /repo/src/m.py)\n(Current directory: /repo)\nbash-$"}]


def test_an_edit_without_a_path_is_of_the_file_that_is_open():
    expert = call("edit", start_line=4, end_line=4, replacement_text="    return x + 2")
    for text, reward in [("    return x+2  # two", 1), ("    return x + 3", 0), ("return x + 2", 0)]:
        actual = call("edit", start_line=4, end_line=4, replacement_text=text)
        assert EDIT.verify(Attempt(expert, [actual], messages=OPENED)).reward == reward
    whole = replace("    return x + 1", "    return x + 2")
    by_lines = call("edit", start_line=10, end_line=10, replacement_text="    return x + 2")
    assert EDIT.verify(Attempt(whole, [by_lines], messages=[*history(), *OPENED])).reward == 1
    assert EDIT.verify(Attempt(whole, [by_lines], messages=history())).reward == 0
