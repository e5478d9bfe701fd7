"""The file's text where the history shows it whole, and nothing where it may be another."""

import json

import pytest

from pivotrl.verifiers.code.history import file_text

PATH = "/repo/src/m.py"
TEXT = "def f():\n    return 1\n"
NUMBERED = (
    "Here's the result of running `cat -n` on /repo/src/m.py:\n     1\tdef f():\n     2\t    return 1\n     3\t\n"
)

WINDOW = f"File updated.\r\n[File: {PATH} (2 lines total)]\r\n1:def f():\r\n2:    return 1\r\n(Open file: x)"
PATCH = "--- a/src/m.py\n+++ b/src/m.py\n@@ -2 +2 @@\n-    return 1\n+    return 2\n"
RENAME = "diff --git a/src/m.py b/src/n.py\nrename from src/m.py\nrename to src/n.py\n"


def turns(*steps):
    """(name, arguments, answer) -> messages."""
    messages = [{"role": "user", "content": "Fix it."}]
    for index, (name, arguments, answer) in enumerate(steps):
        call = {"id": f"c{index}", "function": {"name": name, "arguments": json.dumps(arguments)}}
        messages.append({"role": "assistant", "content": "", "tool_calls": [call]})
        messages.append({"role": "tool", "content": answer, "tool_call_id": f"c{index}"})
    return messages


def editor(command, answer="", **arguments):
    return "str_replace_editor", {"command": command, "path": PATH, **arguments}, answer


def shell(command, answer=""):
    return "bash", {"command": command}, answer


CREATE = editor("create", "File created successfully at: /repo/src/m.py", file_text=TEXT)
VIEW = editor("view", NUMBERED)
REPLACE = editor("str_replace", "The file /repo/src/m.py has been edited.", old_str="1", new_str="2")
CHANGED = TEXT.replace("1", "2")
KNOWN = [
    ([CREATE], TEXT),
    ([VIEW], TEXT),
    ([VIEW, REPLACE], CHANGED),
    ([CREATE, REPLACE, editor("str_replace", "OK", old_str="2", new_str="3")], TEXT.replace("1", "3")),
    ([VIEW, editor("str_replace", "No replacement was performed.", old_str="9", new_str="2")], TEXT),
    ([VIEW, editor("insert", "The file has been edited.", insert_line=0, new_str="import os")], "import os\n" + TEXT),
    ([shell("cat src/m.py", TEXT)], TEXT),
    ([shell("cd /repo && cat src/m.py", TEXT)], TEXT),
    ([shell("cat /repo/src/m.py", TEXT + "\n[The command completed with exit code 0.]")], TEXT),
    ([shell("cat -n /repo/src/m.py", "     1\tdef f():\n     2\t    return 1")], TEXT.rstrip("\n")),
    ([("Read", {"file_path": PATH}, "     1\u2192def f():\n     2\u2192    return 1\n")], TEXT.rstrip("\n")),
    ([CREATE, shell("pytest -q src/m.py 2>&1 | tail", "1 passed")], TEXT),
    ([CREATE, shell("git diff", ""), shell("grep -n f src/m.py", "1:def f():")], TEXT),
    ([CREATE, shell("rm -f other.txt", "")], TEXT),
    ([CREATE, ("grep", {"pattern": "f", "path": PATH}, "")], TEXT),
    ([("edit", {"start_line": 1, "end_line": 1, "replacement_text": TEXT}, WINDOW)], TEXT.rstrip("\n")),
    ([CREATE, ("apply_patch", {"patch": PATCH}, "Done!")], CHANGED),
    ([shell(f"cat > /repo/src/m.py <<'EOF'\n{TEXT}EOF")], TEXT),
    (
        [
            VIEW,
            editor("str_replace", "Found 2 matches of the string, but replace_all is false.", old_str="1", new_str="2"),
        ],
        TEXT,
    ),
    ([CREATE, shell("rm -rf build && mv a.txt b.txt")], TEXT),
]
UNKNOWN = [
    [],
    [editor("view", NUMBERED, view_range=[1, 3])],
    [editor("view", NUMBERED.replace("     2\t", "     3\t"))],
    [editor("view", NUMBERED + "<response clipped><NOTE>too long</NOTE>")],
    [REPLACE],
    [CREATE, editor("str_replace", "The file has been edited.", old_str="9", new_str="2")],
    [CREATE, editor("str_replace", "Edited error.py: could not tell. Updated successfully", old_str="1", new_str="2")],
    [CREATE, shell("git checkout .")],
    [CREATE, shell("git -C /repo checkout .")],
    [CREATE, shell("rm -rf src")],
    [CREATE, shell("mv /repo /old")],
    [CREATE, shell("make format")],
    [shell(f"cat > /repo/src/m.py <<EOF\n{TEXT}EOF")],
    [shell(f"cat > /repo/src/m.py <<'EOF'\n{TEXT}EOF\nrm x\nEOF")],
    [shell(f"cat > /repo/src/m.py <<'EOF'\n{TEXT}EOF", "bash: Permission denied")],
    [CREATE, shell("sed -i 's/1/2/' src/m.py")],
    [CREATE, shell("sed -i 's/1/2/' src/*.py")],
    [CREATE, shell("echo x > src/m.py")],
    [CREATE, shell("black .")],
    [CREATE, shell("python - <<E\nopen('src/m.py', 'w').write('')\nE")],
    [CREATE, editor("undo_edit", "Last edit undone successfully.")],
    [CREATE, ("apply_patch", {"patch": RENAME}, "Done!")],
    [CREATE, ("Edit", {"file_path": "m.py", "old_string": "1", "new_string": "2"}, "updated")],
    [CREATE, ("magic", {"path": PATH}, "")],
    [shell("cat src/m.py", "cat: src/m.py: No such file or directory")],
    [shell("cat src/m.py | head", TEXT)],
    [shell("cat src/m.py", "a\n... truncated ...\nb")],
    [shell("cat src/other.py", TEXT)],
    [shell("nl src/m.py", "     1\tdef f():\n\n     2\t    return 1\n")],
]


@pytest.mark.parametrize("steps, text", KNOWN)
def test_known(steps, text):
    found = file_text(turns(*steps), PATH)
    assert found is not None and found.rstrip("\n") == text.rstrip("\n")


@pytest.mark.parametrize("steps", UNKNOWN)
def test_unknown(steps):
    assert file_text(turns(*steps), PATH) is None


def test_a_history_that_grows_is_read_again():
    messages = turns(CREATE)
    assert file_text(messages, PATH) == TEXT
    messages += turns(REPLACE)[1:]
    assert file_text(messages, PATH) == CHANGED


@pytest.mark.parametrize(
    "messages",
    [
        [{}],
        ["x", None, 5],
        [{"role": "assistant", "tool_calls": 5}, {"role": "tool"}],
        [{"role": "assistant", "tool_calls": [5, {}, {"function": {"name": 5}}]}],
        [{"role": "assistant", "tool_calls": [{"id": [], "function": {"name": "Write"}}]}],
        [{"role": "assistant", "tool_calls": [{"function": {"name": "Write", "arguments": "m.py [" * 10_000}}]}],
        [{"role": "assistant", "tool_calls": [{"function": {"name": "Write", "arguments": '"m.py"'}}]}],
        [{"role": "tool", "content": ["x"], "tool_call_id": {}}],
    ],
)
def test_odd_histories_say_nothing(messages):
    assert file_text(messages, PATH) is None
