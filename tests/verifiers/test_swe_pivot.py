import json
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pivotrl.verifiers.attempt import Attempt
from pivotrl.verifiers.base import VerifierConfig
from pivotrl.verifiers.registry import build_verifier
from pivotrl.verifiers.swe_arguments import paths_in
from pivotrl.verifiers.swe_pivot import SwePivotVerifier
from pivotrl.verifiers.tool_categories import NAMES, category

EDITOR, BASH = "str_replace_editor", "execute_bash"
FULL, PART, KIND, TARGET, UNLIKE, UNUSABLE = (
    "equivalent",
    "partly_equivalent",
    "tool_name_mismatch",
    "target_mismatch",
    "similarity_below_threshold",
    "unusable_arguments",
)
INFINITY = float("inf")


def call(name, arguments):
    return {"type": "function_call", "name": name, "arguments": arguments}


def as_text(arguments):
    return arguments if isinstance(arguments, str) else json.dumps(arguments)


def judge(expert, items, metadata=None, **params):
    verifier = build_verifier(VerifierConfig(name="swe_pivot", params=params))
    return verifier.verify(Attempt(expert, items, metadata=metadata or {}))


def view(lines, path="src/a.py"):
    return {"command": "view", "path": path, "view_range": lines}


def replace(old, new, path="src/a.py"):
    return {"command": "str_replace", "path": path, "old_str": old, "new_str": new}


LINE = "result = compute(first, second)"
# (the expert's tool and arguments, the model's tool and arguments, reward, reason): the first call alone, default
# parameters.
CASES = [
    # kinds of tools
    (BASH, {"command": "ls"}, "terminal", {"command": "ls"}, 1, FULL),
    (BASH, {"command": "ls"}, "ExecuteBash", {"cmd": "ls"}, 1, FULL),
    (BASH, {"command": "ls"}, "EXECUTE_BASH", {"command": "ls"}, 1, FULL),
    (BASH, {"command": "ls"}, EDITOR, {"command": "ls"}, 0, KIND),
    ("browse", {"a": 1}, "Browse", {"b": 2}, 1, FULL),
    ("browse", {}, "navigate", {}, 0, KIND),
    ("finish", {"message": "done"}, "submit", "not JSON", 1, FULL),
    ("think", {"thought": "a"}, "think", "7", 1, FULL),
    ("todo_write", {"todos": []}, "update_plan", {}, 1, FULL),
    ("grep", {"pattern": "a"}, "read_file", {"path": "a"}, 0, KIND),
    # searches and reads: the last three parts of the path
    ("grep", {"path": "/repo/x/y/z"}, "glob", {"path": "/elsewhere/x/y/z/"}, 1, FULL),
    ("grep", {"path": "x/y/z"}, "glob", {"path": "q/y/z"}, 0, TARGET),
    ("grep", {"path": "y/z"}, "glob", {"path": "q/y/z"}, 0, TARGET),
    ("read_file", {"file_path": "a/b.py"}, "cat_file", {"filename": " a/b.py "}, 1, FULL),
    ("read_file", {"file": "b.py", "path": "a.py"}, "view", {"path": "a.py"}, 1, FULL),
    ("read_file", {"path": "a.py"}, "view", {"pattern": "b.py"}, 1, FULL),
    ("read_file", {"path": 5}, "view", {"path": 5.0}, 0, TARGET),
    ("read_file", {"path": "a"}, "view", "[1]", 1, FULL),
    ("read_file", {"path": "a"}, "view", "5", 0, UNUSABLE),
    ("read_file", {"path": "a"}, "view", '["path"]', 0, UNUSABLE),
    # edits: sub-command, the last two parts of the path
    (EDITOR, replace(LINE, ""), EDITOR, replace(LINE, "", "/testbed/src/a.py"), 1, FULL),
    (EDITOR, replace(LINE, ""), EDITOR, replace(LINE, "", "lib/a.py"), 0, TARGET),
    (EDITOR, {"command": "create", "path": "a"}, EDITOR, {"command": "view", "path": "a"}, 0, TARGET),
    (EDITOR, {"command": "undo_edit", "path": "a"}, EDITOR, {"path": "a"}, 1, FULL),
    (EDITOR, {"command": "view"}, EDITOR, {"command": ["view"]}, 0, TARGET),
    (EDITOR, {"command": "view"}, EDITOR, "[]", 0, UNUSABLE),
    (EDITOR, {"command": "view"}, EDITOR, "not JSON", 1, FULL),
    # edits: the lines of a view
    (EDITOR, view([1, 41]), EDITOR, view([1, 33]), 1, FULL),
    (EDITOR, view([1, 41]), EDITOR, view([1, 32]), 0, TARGET),
    (EDITOR, view([1, 41]), EDITOR, view([1, 9000]), 1, FULL),
    (EDITOR, view([10, 20]), EDITOR, view([30, 40]), 0, TARGET),
    (EDITOR, view([1, 41]), EDITOR, view("[1, 41]"), 1, FULL),
    (EDITOR, view([1, 41]), EDITOR, view(["1", 41.9]), 1, FULL),
    (EDITOR, view([1, 41]), EDITOR, view("[2, 9"), 1, FULL),
    (EDITOR, view([1, 41]), EDITOR, view([50, 60, 70]), 1, FULL),
    (EDITOR, view([1, 41]), EDITOR, view(None), 1, FULL),
    (EDITOR, view([1, 41]), EDITOR, view({"from": 1}), 1, FULL),
    (EDITOR, view([1, -1]), EDITOR, view([1, -1]), 0, TARGET),
    (EDITOR, view([7, 7]), EDITOR, view([1, 50]), 0, TARGET),
    (EDITOR, view([1, 41]), EDITOR, view([INFINITY, 41]), 0, UNUSABLE),
    (EDITOR, view([1, 41]), EDITOR, view([float("nan"), 41]), 1, FULL),
    (EDITOR, view([1, 41]), EDITOR, {**view([90, 99]), "command": None}, 0, TARGET),
    # edits: their text
    (EDITOR, replace(LINE, "x = 1"), EDITOR, replace(LINE, "x = 2"), 1, FULL),
    (EDITOR, replace(LINE, "x = 1"), EDITOR, replace(LINE, "return None"), 0, UNLIKE),
    (EDITOR, replace(LINE, "x = 1"), EDITOR, replace("", "x = 1"), 0, UNLIKE),
    (EDITOR, replace("", "x = 1"), EDITOR, replace("", "x = 1"), 1, FULL),
    (EDITOR, replace(LINE, "x = 1"), EDITOR, {"command": "str_replace", "path": "src/a.py"}, 0, UNLIKE),
    (EDITOR, replace(None, None), EDITOR, replace("None", "None"), 1, FULL),
    ("write_file", {"path": "a", "content": LINE}, "create_file", {"path": "a", "file_text": LINE + "\n"}, 1, FULL),
    ("write_file", {"path": "a", "content": LINE}, "create_file", {"path": "a"}, 0, UNLIKE),
    ("write_file", {"path": "a", "content": ""}, "create_file", {"path": "a"}, 1, FULL),
    ("apply_patch", {"patch": LINE}, "apply_diff", {"diff": LINE}, 1, FULL),
    ("apply_patch", {"patch": LINE, "content": "b"}, EDITOR, {"old_str": "", "new_str": LINE}, 1, FULL),
    ("apply_patch", {"patch": LINE}, EDITOR, {"old_str": LINE, "new_str": LINE}, 0, UNLIKE),
    ("apply_patch", {"diff": "a" * 1999 + "b" * 9}, "apply_patch", {"diff": "a" * 1999 + "bcdefghi"}, 1, FULL),
    ("apply_patch", {"patch": 5}, "apply_patch", {"patch": "5"}, 1, FULL),
    # commands: program, paths, similarity
    (BASH, {"command": "grep -rn total src"}, BASH, {"command": "/bin/grep -rn total src"}, 1, FULL),
    (BASH, {"command": "cat file.txt"}, BASH, {"command": "tac file.txt"}, 0, TARGET),
    (BASH, {"command": "cat /x/a/b/c.py"}, BASH, {"command": "cat /y/a/b/c.py"}, 1, FULL),
    (BASH, {"command": "cat /x/a/b/c.py"}, BASH, {"command": "cat /x/a/b/d.py"}, 0, TARGET),
    (BASH, {"command": "cat a/b/c.py d/e.py"}, BASH, {"command": "cat d/e.py"}, 0, UNLIKE),
    (BASH, {"command": "cd a"}, BASH, {"command": "cd bbbbbbbbbbbbbbbbbbbbbbbbbb"}, 0, TARGET),
    (BASH, {"command": "git status"}, BASH, {"command": "git stash"}, 1, FULL),
    (BASH, {"command": "git status"}, BASH, {"command": "git diff --stat"}, 0, UNLIKE),
    (BASH, {"command": "ls"}, BASH, {"command": ""}, 1, FULL),
    (BASH, {"command": "ls"}, BASH, "{", 1, FULL),
    (BASH, {"command": "ls"}, BASH, '["rm"]', 1, FULL),
    (BASH, {"command": "ls"}, BASH, '["command"]', 0, UNUSABLE),
    (BASH, {"command": "ls"}, BASH, '"a command"', 0, UNUSABLE),
    (BASH, {"command": "ls"}, BASH, "null", 0, UNUSABLE),
    (BASH, {"command": "ls"}, BASH, "true", 0, UNUSABLE),
    (BASH, {"command": "ls"}, BASH, {"command": None}, 0, TARGET),
    (BASH, {"command": "ls"}, BASH, {"script": "rm -rf x"}, 1, FULL),
    (BASH, {"command": "ls"}, BASH, {"command": "ls", "cmd": "rm -rf x"}, 1, FULL),
    (BASH, {"command": "/bin/"}, BASH, {"command": "ls /bin/"}, 0, UNLIKE),
    (BASH, {"command": "ls"}, BASH, '{"command": ' + "9" * 5000 + "}", 0, UNUSABLE),
    (BASH, {"command": "ls"}, BASH, "[" * 100_000, 0, UNUSABLE),
    (BASH, {"command": "ls"}, BASH, '{"command": "rm"} {"command": "ls"}', 1, FULL),
]


@pytest.mark.parametrize("name, expected, other, actual, reward, reason", CASES, ids=range(len(CASES)))
def test_calls_compare_as_in_nemo_gym(name, expected, other, actual, reward, reason):
    verdict = judge(call(name, as_text(expected)), [call(other, as_text(actual))])
    assert (verdict.reward, verdict.reason) == (reward, reason)


STATUS, STASH, DIFF = ({"command": f"git {word}"} for word in ("status", "stash", "diff --stat"))
CONTINUOUS = {"reward_mode": "continuous"}
# (the expert's tool and arguments, the model's arguments, parameters, reward, reason).
SETTINGS = [
    (BASH, STATUS, DIFF, {"similarity_full_credit": 0.64}, 1, FULL),
    (BASH, STATUS, DIFF, {"similarity_full_credit": 0.65}, 0, UNLIKE),
    (BASH, STATUS, DIFF, CONTINUOUS, 0.5 + 0.5 * (0.64 - 0.4) / (0.8 - 0.4), PART),
    (BASH, STATUS, DIFF, CONTINUOUS | {"similarity_threshold": 0.65}, 0, UNLIKE),
    (BASH, STATUS, DIFF, CONTINUOUS | {"similarity_threshold": 0.64}, 0.5, PART),
    (BASH, STATUS, DIFF, CONTINUOUS | {"similarity_full_credit": 0.5}, 1, FULL),
    (BASH, STATUS, DIFF, {"enable_argument_similarity": False}, 1, FULL),
    (BASH, STATUS, {"command": "ls"}, {"enable_target_match": False}, 0, UNLIKE),
    (BASH, STATUS, {"command": "ls"}, {"enable_argument_similarity": False}, 0, TARGET),
    (BASH, STATUS, {"command": "ls"}, {"enable_target_match": False, "enable_argument_similarity": False}, 1, FULL),
    (EDITOR, replace(LINE, LINE), replace(LINE, LINE), CONTINUOUS, 1 - 0.1 * (2 * len(LINE) + 1) / 500, PART),
    (EDITOR, replace(LINE, ""), replace(LINE, ""), CONTINUOUS | {"diff_size_alpha": 0.5}, 0.968, PART),
    (EDITOR, replace(LINE, ""), replace(LINE, ""), {"diff_size_alpha": 0.5}, 1, FULL),
    (EDITOR, replace(LINE, ""), replace(LINE, ""), CONTINUOUS | {"enable_diff_size_shaping": False}, 1, FULL),
    (EDITOR, {"content": "a" * 900}, {"content": "a" * 900}, CONTINUOUS, 0.9, PART),
    (EDITOR, {"content": "a" * 900}, {"content": "a" * 900}, CONTINUOUS | {"diff_size_alpha": 1.0}, 0, PART),
    (EDITOR, view([1, 9]), view([1, 9]), CONTINUOUS, 1, FULL),
    (BASH, {"command": "x" * 900}, {"command": "x" * 900}, CONTINUOUS, 1, FULL),
]


@pytest.mark.parametrize("name, expected, actual, params, reward, reason", SETTINGS)
def test_parameters_act_as_in_nemo_gym(name, expected, actual, params, reward, reason):
    verdict = judge(call(name, as_text(expected)), [call(name, as_text(actual))], **params)
    assert (verdict.reward, verdict.reason) == (pytest.approx(reward, abs=1e-12), reason)


LS = call(BASH, '{"command": "ls"}')
# (the expert's action, metadata, reward, reason), where the model calls LS.
EXPERTS = [
    ({"type": "message", "content": json.dumps(LS)}, {}, 1, FULL),
    ({"type": "message", "content": json.dumps(LS | {"arguments": {"command": "ls"}})}, {}, 1, FULL),
    ({"type": "message", "content": json.dumps(LS | {"arguments": None})}, {}, 1, FULL),
    ({"type": "message", "content": json.dumps(LS | {"name": "grep"})}, {"expected_action": LS}, 0, KIND),
    ({"type": "message", "content": "I list the files."}, {"expected_action": LS}, 1, FULL),
    ({"type": "message", "content": '{"type": "function_call"}'}, {"expected_action": LS}, 1, FULL),
    ({"type": "message", "content": "[" * 100_000}, {"expected_action": LS}, 0, UNUSABLE),
    ({"type": "message", "content": ""}, {"expected_action": {"type": "function_call"}}, 0, UNUSABLE),
    ({"type": "message", "content": ""}, {"expected_action": {"type": "function_call", "name": 5}}, 0, UNUSABLE),
    ({"type": "message", "content": ""}, {"expected_action": {"type": "message"}}, 0, "expected_action_invalid"),
    ({"type": "message", "content": "[]"}, {"expected_action": "ls"}, 0, "expected_action_invalid"),
    ({"type": "message", "content": "hello"}, {}, 0, "expected_action_invalid"),
    ({"type": "function_call_batch", "calls": [LS]}, {}, 0, "expected_action_invalid"),
    ({"type": "function_call_batch", "calls": [LS]}, {"expected_action": LS}, 1, FULL),
]


@pytest.mark.parametrize("expert, metadata, reward, reason", EXPERTS)
def test_the_experts_call_may_stand_elsewhere(expert, metadata, reward, reason):
    verdict = judge(expert, [LS], metadata)
    assert (verdict.reward, verdict.reason) == (reward, reason)


@pytest.mark.parametrize(
    "items, reward, reason",
    [
        ([LS, call("grep", "{}")], 1, FULL),
        ([call("grep", "{}"), LS], 0, KIND),
        ([{"type": "message", "content": "I will"}, LS], 1, FULL),
        ([{"type": "message", "content": "ls"}], 0, "model_output_invalid"),
        ([], 0, "model_output_invalid"),
        (None, 0, "model_output_invalid"),
        ([None, 5, ["x"], LS], 1, FULL),
        ([{"type": "function_call"}], 0, UNUSABLE),
        ([call(None, "{}")], 0, UNUSABLE),
        ([call(["bash"], "{}")], 0, UNUSABLE),
        ([call(BASH, None)], 1, FULL),
        ([call(BASH, b"{}")], 1, FULL),
        ([call(BASH, {"command": "rm"})], 0, TARGET),
        ([call(BASH, '{"command": "' + "l" * 1_000_000 + '"}')], 0, "too_long"),
    ],
)
def test_the_first_call_of_the_output_counts(items, reward, reason):
    verdict = judge(LS, items)
    assert (verdict.reward, verdict.reason) == (reward, reason)


@pytest.mark.parametrize(
    "command, paths",
    [
        ("cat /a/b c/d ./e ../f/g", ["/a/b", "c/d", "./e", "../f/g"]),
        ("X=/y/z 'q/r' \"s/t\" (u/v) `w/x`", ["/y/z", "q/r", "s/t", "u/v"]),
        ("--file=a/b --no/pe -o/k", ["a/b", "-o/k"]),
        ("/ab//c //d d//e f/ / // /gh/ ./ /h /i/", ["/ab", "d//e", "/gh"]),
        ("/a:/b c:d/e a/ü/日本.py,b/c", ["a/ü/日本.py"]),
        ("", []),
    ],
)
def test_paths_in_a_command(command, paths):
    assert paths_in(command) == paths


def test_every_name_has_its_category_in_each_spelling():
    for kind, names in NAMES.items():
        for name in names.split():
            camel = "".join(word.capitalize() for word in name.split("_"))
            assert {category(name), category(name.upper()), category(camel)} == {kind}
    assert sum(len(names.split()) for names in NAMES.values()) == 71
    assert category("") == category("str-replace-editor") == category("frobnicate") == "unknown"


def test_a_wrong_parameter_names_the_key():
    with pytest.raises(ValueError, match=r"verifier\.params\.reward_mode"):
        judge(LS, [LS], reward_mode="ternary")
    with pytest.raises(ValueError, match=r"verifier\.params\.diff_size_alpha"):
        judge(LS, [LS], diff_size_alpha=1.5)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)
KEYS = ["command", "cmd", "path", "file", "old_str", "new_str", "patch", "diff", "content", "file_text", "view_range"]
keys = st.sampled_from(KEYS)
tools = st.sampled_from([EDITOR, BASH, "grep", "view_file", "think", "browse"])
SWE = SwePivotVerifier({})


@settings(max_examples=300, deadline=None)
@given(tools, st.dictionaries(keys, json_values, max_size=5), st.sampled_from(["binary", "continuous"]))
def test_a_call_is_its_own_equivalent_whatever_the_order_of_keys(name, arguments, mode):
    expert = call(name, json.dumps(arguments))
    again = call(name, json.dumps(dict(reversed(arguments.items())), ensure_ascii=False))
    verdict = SWE.verify(Attempt(expert, [again]), {"reward_mode": mode, "enable_diff_size_shaping": False})
    # NeMo-Gym's view of an empty range of lines is not its own equivalent, nor are lines at infinity.
    own = arguments.get("command") != "view" or "view_range" not in arguments
    assert verdict.reward == 1 or not own


@settings(max_examples=300, deadline=None)
@given(tools, json_values, tools, json_values | st.dictionaries(keys, json_values, max_size=5))
def test_no_arguments_make_it_raise(name, expected, other, actual):
    SWE.verify(Attempt(call(name, json.dumps(expected)), [call(other, json.dumps(actual))]))
    SWE.verify(Attempt(call(name, json.dumps(actual)), [call(other, actual)]), {"reward_mode": "continuous"})


def test_hostile_texts_are_judged_soon():
    start = time.process_time()
    for text in ("a/b " * 200_000, "/" * 900_000, "/a" * 400_000, "=" * 900_000, "a" * 900_000, "\ud800" * 100_000):
        for arguments in ({"command": text}, {"path": text}, replace(text, text)):
            for name in (BASH, EDITOR, "grep"):
                judge(call(name, as_text(replace("a b", "c d"))), [call(name, as_text(arguments))], **CONTINUOUS)
    assert time.process_time() - start < 10


def golden(shared_data):
    with open(shared_data / "verifier_golden" / "swe_pivot.jsonl") as file:
        rows = [json.loads(line) for line in file]
    return rows, [(Attempt(row["expected_action"], row["response"]), row["params"]) for row in rows]


def test_golden_verdicts_all_agree(shared_data):
    rows, jobs = golden(shared_data)
    found = [SWE.verify(*job) for job in jobs]
    assert len(rows) == 160
    assert [verdict.reward for verdict in found] == [row["reward"] for row in rows]
    keys = ["none" if verdict.reason in (FULL, PART) else verdict.reason for verdict in found]
    assert keys == [row["peer_category"] for row in rows]
