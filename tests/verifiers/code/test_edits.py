"""Edits are read from the calls of the usual tools, and applied to text alone."""

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pivotrl.verifiers.base import Difference
from pivotrl.verifiers.code.diffs import diff_in, read_blocks, read_patch
from pivotrl.verifiers.code.edits import apply_edit
from pivotrl.verifiers.code.shapes import read_edits

FILE = "import os\n\n\ndef f(x):\n    return x\n\n\ndef g(x):\n    return x + 1\n"
AFTER = FILE.replace("return x + 1", "return x + 2")
UNIFIED = """--- a/src/m.py
+++ b/src/m.py
@@ -7,3 +7,3 @@ def f(x):

 def g(x):
-    return x + 1
+    return x + 2
"""
SHIFTED = UNIFIED.replace("-7,3 +7,3", "-2,3 +2,3")
ENVELOPE = """*** Begin Patch
*** Update File: src/m.py
@@ def g(x):
-    return x + 1
+    return x + 2
*** End Patch"""
BLOCKS = """<<<<<<< SEARCH
    return x + 1
=======
    return x + 2
>>>>>>> REPLACE"""
PATH = {"path": "src/m.py"}
SAME_EFFECT = [
    ("str_replace_editor", {"command": "str_replace", **PATH, "old_str": "x + 1", "new_str": "x + 2"}),
    (
        "text_editor",
        {
            "command": "str_replace",
            **PATH,
            "old_str": "def g(x):\n    return x + 1",
            "new_str": "def g(x):\n    return x + 2",
        },
    ),
    ("str_replace_editor", {"command": "create", **PATH, "file_text": AFTER}),
    ("Edit", {"file_path": "src/m.py", "old_string": "+ 1", "new_string": "+ 2"}),
    ("Edit", {"file_path": "src/m.py", "old_string": "1", "new_string": "2", "replace_all": True}),
    (
        "MultiEdit",
        {
            "file_path": "src/m.py",
            "edits": [{"old_string": "x + 1", "new_string": "y"}, {"old_string": "y", "new_string": "x + 2"}],
        },
    ),
    ("Write", {"file_path": "src/m.py", "content": AFTER}),
    ("write_file", {"filename": "src/m.py", "content": AFTER}),
    ("create_file", {"path": "src/m.py", "file_text": AFTER}),
    ("apply_patch", {"patch": UNIFIED}),
    ("apply_patch", {"patch": SHIFTED}),
    ("apply_patch", {"input": ENVELOPE}),
    ("apply_diff", {**PATH, "diff": BLOCKS}),
    ("apply_diff", {"diff": "diff --git a/src/m.py b/src/m.py\nindex 1..2 100644\n" + UNIFIED}),
    ("edit", {"search": "x + 1", "replace": "x + 2"}),
    ("edit", {"start_line": 9, "end_line": 9, "replacement_text": "    return x + 2"}),
    ("edit_file", {**PATH, "old_str": "x + 1", "new_str": "x + 2"}),
    ("mcp__files__edit_file", {**PATH, "edits": [{"old_text": "x + 1", "new_text": "x + 2"}]}),
]


@pytest.mark.parametrize("name, arguments", SAME_EFFECT)
def test_one_effect_in_many_forms(name, arguments):
    edits = read_edits(name, arguments)
    assert isinstance(edits, tuple) and len(edits) == 1
    assert edits[0].path in ("src/m.py", "")
    assert apply_edit(FILE, edits[0]) == AFTER


OUTCOMES = [
    ({"command": "insert", "insert_line": 0, "new_str": "a"}, "x\ny\n", "a\nx\ny\n"),
    ({"command": "insert", "insert_line": 1, "new_str": "a\nb\n"}, "x\ny\n", "x\na\nb\ny\n"),
    ({"command": "insert", "insert_line": "2", "new_str": "a"}, "x\ny\n", "x\ny\na\n"),
    ({"command": "insert", "insert_line": 9, "new_str": "a"}, "x\n", None),
    ({"command": "str_replace", "old_str": "x"}, "x\ny\n", "\ny\n"),
    ({"command": "str_replace", "old_str": "x", "new_str": "z"}, "x x\n", None),
    ({"command": "str_replace", "old_str": "q", "new_str": "z"}, "x\n", None),
    ({"command": "str_replace", "old_str": "", "new_str": "z"}, "x\n", None),
    ({"command": "str_replace", "old_str": "", "new_str": "z"}, None, "z"),
    ({"command": "str_replace", "old_str": "x", "new_str": "z"}, None, None),
    ({"command": "undo_edit"}, "x\n", None),
    ({"command": "create", "file_text": ""}, None, ""),
]


@pytest.mark.parametrize("arguments, before, after", OUTCOMES)
def test_outcomes(arguments, before, after):
    (edit,) = read_edits("str_replace_editor", {"path": "a", **arguments})
    result = apply_edit(before, edit)
    assert result == after if after is not None else result.reason == "edit_does_not_apply"


@pytest.mark.parametrize(
    "name, arguments",
    [
        ("str_replace_editor", {"command": "str_replace", "old_str": "a"}),
        ("str_replace_editor", {"command": "str_replace", "path": "", "old_str": "a"}),
        ("str_replace_editor", {"command": "str_replace", "path": "a"}),
        ("str_replace_editor", {"command": "create", "path": "a"}),
        ("str_replace_editor", {"command": "insert", "path": "a", "new_str": "b"}),
        ("Write", {"file_path": "a"}),
        ("Write", {"content": "a"}),
        ("Edit", {"file_path": "a", "old_string": 5}),
        ("MultiEdit", {"file_path": "a", "edits": []}),
        ("MultiEdit", {"file_path": "a", "edits": ["b"]}),
        ("apply_patch", {"patch": "  "}),
    ],
)
def test_what_lacks_an_argument_is_told_apart(name, arguments):
    found = read_edits(name, arguments)
    assert isinstance(found, Difference) and found.reason == "missing_argument"


@pytest.mark.parametrize(
    "name, arguments",
    [
        ("bash", {"command": "ls"}),
        ("str_replace_editor", {"command": "view", "path": "a"}),
        ("apply_patch", {"patch": "--- a/x\n+++ b/x\nreturn 1"}),
        ("apply_patch", {"patch": "not a patch"}),
        ("apply_patch", {"patch": ENVELOPE.replace("\n*** End Patch", "")}),
        ("apply_patch", {"patch": ENVELOPE + "\n*** Begin Patch\n*** Delete File: x\n*** End Patch"}),
        ("Edit", []),
        (None, {}),
        ("x" * 300, {}),
    ],
)
def test_what_is_no_known_edit_is_none(name, arguments):
    assert read_edits(name, arguments) is None


def test_patches_of_several_files_and_kinds():
    patch = (
        "diff --git a/n.py b/n.py\nnew file mode 100644\n--- /dev/null\n+++ b/n.py\n@@ -0,0 +1,2 @@\n+a\n+b\n"
        "diff --git a/o.py b/o.py\n--- a/o.py\n+++ /dev/null\n@@ -1 +0,0 @@\n-gone\n"
        "diff --git a/p.py b/q.py\nsimilarity index 100%\nrename from p.py\nrename to q.py\n"
    )
    new, gone, moved = read_edits("apply_patch", {"patch": patch})
    assert (new.kind, new.path, new.text) == ("write", "n.py", "a\nb\n")
    assert (gone.kind, gone.path) == ("delete", "o.py")
    assert (moved.path, moved.moved_to) == ("p.py", "q.py")
    envelope = "*** Begin Patch\n*** Add File: n.py\n+a\n+b\n*** Delete File: o.py\n*** End Patch"
    assert read_edits("apply_patch", {"input": envelope}) == (new, gone)


def test_hunks_apply_only_where_every_line_is_equal():
    (edit,) = read_edits("apply_patch", {"patch": UNIFIED.replace("x + 1", "x  + 1")})
    assert apply_edit(FILE, edit).reason == "edit_does_not_apply"
    two = "@@ -1,1 +1,1 @@\n-a\n+b\n@@ -3,1 +3,2 @@\n c\n+d\n"
    (edit,) = read_edits("apply_patch", {"patch": two, "path": "m"})
    assert apply_edit("a\nx\nc\n", edit) == "b\nx\nc\nd\n"
    assert apply_edit("0\na\nx\nc", edit) == "0\nb\nx\nc\nd"
    assert apply_edit("c\nx\na\n", edit).reason == "edit_does_not_apply"


def test_of_equal_places_a_hunk_takes_the_one_it_names():
    text = "a\nb\na\nb\na\nb\n"
    for line, expected in [(1, "X\nb\na\nb\na\nb\n"), (3, "a\nb\nX\nb\na\nb\n"), (5, "a\nb\na\nb\nX\nb\n")]:
        (edit,) = read_edits("apply_patch", {"patch": f"@@ -{line},2 +{line},2 @@\n-a\n+X\n b\n", "path": "m"})
        assert apply_edit(text, edit) == expected


def test_removed_lines_that_look_like_headers_are_lines():
    (patch,) = read_patch("--- a/m\n+++ b/m\n@@ -1,2 +1,1 @@\n--- x\n y\n")
    assert patch.hunks[0].old == ("-- x", "y") and patch.hunks[0].new == ("y",)


def test_blocks_and_diffs_in_messages():
    assert read_blocks(BLOCKS) == (("    return x + 1", "    return x + 2"),)
    assert read_blocks("<<<<<<< SEARCH\na\n=======\nb") is None
    assert diff_in("Here:\n```diff\n-a\n+b\n```\nDone.") == "-a\n+b"
    assert diff_in("```diff\n-a\n```\n```diff\n-b\n```") is None
    assert diff_in("```diff\n-a") is None and diff_in("-a") is None


def test_equal_lines_are_searched_in_bounded_time():
    start = time.process_time()
    text = "q\n" + "a\n" * 190_000
    for body in (" b\n" + " a\n" * 60_000 + "-a\n+c\n", "-q\n+r\n", " a\n-a\n+c\n"):
        for line in (180_000, 999_999):
            (edit,) = read_edits("apply_patch", {"patch": f"@@ -{line},1 +1,1 @@\n" + body, "path": "m"})
            apply_edit(text, edit)
    far = "".join(f"@@ -99999 +1 @@\n-l{index}\n+c\n" for index in range(255))
    (edit,) = read_edits("apply_patch", {"patch": far, "path": "m"})
    known = "".join(f"l{index}\n" for index in range(255)) + "a\n" * 150_000
    assert apply_edit(known, edit) == "c\n" * 255 + "a\n" * 150_000
    assert time.process_time() - start < 2


lines = st.lists(st.sampled_from(["a", "b", "c", "d d", ""]), max_size=12)


@settings(max_examples=200, deadline=None)
@given(lines, lines)
def test_a_diff_made_of_two_texts_makes_one_of_the_other(old, new):
    from difflib import unified_diff

    before, after = ("".join(line + "\n" for line in side) for side in (old, new))
    if before == after:
        return
    patch = "\n".join(unified_diff(old, new, "a/m", "b/m", lineterm=""))
    (edit,) = read_edits("apply_patch", {"patch": patch})
    assert apply_edit(before, edit) == after


@settings(max_examples=200, deadline=None)
@given(
    st.lists(
        st.sampled_from(
            [
                "@@ -1 +1 @@",
                "@@",
                "-a",
                "+a",
                " a",
                "",
                "--- a",
                "+++ b",
                "*** Begin Patch",
                "*** Update File: a",
                "*** Add File: b",
                "*** End Patch",
                "x",
                "rename to b",
            ]
        )
    ),
    st.text(max_size=8),
)
def test_no_patch_raises(parts, text):
    for edit in read_edits("apply_patch", {"patch": "\n".join([*parts, text])}) or ():
        if not isinstance(edit, str):
            assert apply_edit("a\nb\n", edit) is not None
