"""A software engineer's action earns what it does, whatever the tool is called."""

import json
import random

import pytest

from pivotrl.verifiers.attempt import Attempt
from pivotrl.verifiers.base import VerifierConfig
from pivotrl.verifiers.registry import build_verifier

SWE = build_verifier(VerifierConfig(name="swe"))
PATH = "/repo/src/m.py"


def call(name, **arguments):
    return {"type": "function_call", "name": name, "arguments": json.dumps(arguments)}


def message(text):
    return {"type": "message", "content": text}


def judge(expert, *items, **rest):
    return SWE.verify(Attempt(expert, list(items), **rest))


def bash(command, **more):
    return call("bash", command=command, **more)


def view(path=PATH, **more):
    return call("str_replace_editor", command="view", path=path, **more)


def replace(old, new, path=PATH, name="str_replace_editor", **more):
    return call(name, command="str_replace", path=path, old_str=old, new_str=new, **more)


SAME = [
    (bash("ls -la src"), call("execute_bash", command="ls -al src/")),
    (bash("ls"), call("terminal", cmd="ls")),
    (bash("ls", timeout=5), bash("ls", security_risk="LOW", is_input="false")),
    (bash("cat src/m.py"), call("read_file", path="src/m.py")),
    (call("read_file", path="src/m.py"), bash("cat -n src/m.py")),
    (bash("cd /repo && cat src/m.py"), call("Read", file_path="/repo/src/m.py")),
    (bash("sed -n '1,40p' src/m.py"), view("src/m.py", view_range=[1, 40])),
    (view(view_range=[1, 20]), bash(f"head -n 20 {PATH}")),
    (bash("grep -rn 'def f' src"), call("grep", pattern="def f", path="src")),
    (call("grep", pattern="def f", path="src/"), bash('rg "def f" ./src')),
    (view(), view("src/m.py")),
    (view(), call("Read", file_path="/repo/./src/m.py")),
    (view(view_range=[10, 20]), view(view_range=[8, 25])),
    (view(view_range=[10, 20]), view(view_range="[10, 20]")),
    (view(view_range=[10, 20]), call("view_file", path=PATH, start_line=10, end_line=20)),
    (view(view_range=[10, 20]), call("Read", file_path=PATH, offset=10, limit=11)),
    (view(view_range=[10, -1]), view(view_range=[10, -1])),
    (call("glob", pattern="*.py", path="."), call("Glob", pattern="*.py")),
    (
        call("grep", pattern="a b", path="src", include="*.py"),
        call("grep", pattern="a b", path="./src", include="*.py"),
    ),
    (call("find_file", file_name="m.py", dir="src"), call("find_file", file_name="m.py", dir="src/")),
    (call("finish", message="Done, all tests pass."), call("finish", message="I fixed it")),
    (call("submit"), call("finish", message="x")),
    (call("think", thought="The bug is in f."), call("think", thought="Look at g")),
    (call("todo_write", todos=[{"id": 1}]), call("todo_write", todos=[{"id": 2}])),
    (replace("a = 1", "a = 2"), replace("a = 1", "a=2  # two")),
    (replace("a = 1", "a = 2"), call("Edit", file_path=PATH, old_string="a = 1", new_string="a = 2")),
    (replace("a = 1\nb = 1", "a = 2\nb = 1"), replace("a = 1", "a = 2", path="src/m.py")),
    (view(view_range=[1, 20]), bash(f"cat {PATH} | head -n 20")),
    (view(view_range=[10, 20]), bash("cd /repo/src && sed -n 10,20p m.py")),
    (view(view_range=[10, 20]), bash(f"cat  -n {PATH} |sed -n '10,20p'")),
    (view(view_range=[1, 10]), bash(f"head {PATH}")),
    (view(view_range=[7, 7]), bash(f"sed -n 7p {PATH}")),
    (view(view_range=[7, -1]), bash(f"tail -n +7 {PATH}")),
    (view(view_range=[7, -1]), bash(f"sed -n '7,$p' {PATH}")),
    (view(), bash(f"nl -ba {PATH}")),
    (bash("cat src/m.py"), bash("cat -n src/m.py")),
    (bash("sed -n '10,20p' src/m.py"), bash("sed -n '9,22p' src/m.py")),
    (bash("grep -rn foo src"), bash("rg -n foo src")),
    (call("grep", pattern="foo", path="/repo/src"), bash("cd /repo && grep -rn foo src")),
    (call("task_tracker", command="view"), call("task_tracker", command="view")),
    (call("my_tool", q="x", n=2), call("my_tool", n=2, q="x")),
    (call("glob", pattern="*.py", path="."), call("glob", pattern="*.py")),
    (call("execute_ipython_cell", code="x = 'a'"), call("execute_ipython_cell", code='x = "a"  # c')),
]
OTHER = [
    (bash("ls -la src"), bash("ls -la lib"), "other_command"),
    (bash("ls && pwd"), bash("pwd && ls"), "other_command"),
    (bash("ls"), call("bash"), "missing_argument"),
    (bash("ls"), bash(""), "missing_argument"),
    (bash("ls"), bash("  \n"), "missing_argument"),
    (bash("ls"), call("bash", command=None), "missing_argument"),
    (bash("ls"), call("bash", command=["ls"]), "missing_argument"),
    (bash("C-c", is_input="true"), bash("C-c"), "missing_argument"),
    (bash("ls"), call("read_file", path="ls"), "other_tool"),
    (bash("cat a/b c"), call("read_file", path="a/b"), "other_tool"),
    (bash("cat src/m.py | head"), call("read_file", path="src/m.py"), "other_range"),
    (bash("cat src/m.py"), call("read_file", path="src/n.py"), "other_target"),
    (bash("cat src/*.py"), call("read_file", path="src/*.py"), "other_tool"),
    (bash("grep -rn 'def f' src"), call("grep", pattern="def g", path="src"), "other_value"),
    (bash("grep -rni 'def f' src"), call("grep", pattern="def f", path="src"), "other_tool"),
    (bash("grep -rn 'a.*b' src"), call("grep", pattern="a.*b", path="src"), "other_tool"),
    (call("grep", pattern="f", path="src"), call("grep", pattern="f", path="lib"), "other_target"),
    (call("grep", pattern="f", path="src"), call("grep", pattern="", path="src"), "missing_argument"),
    (call("grep", pattern="f", path="src"), call("grep", path="src"), "missing_argument"),
    (call("grep", pattern="f", path="src"), call("glob", pattern="f", path="src"), "other_tool"),
    (view(), view("/repo/src/n.py"), "other_target"),
    (view(), view("m.py"), "other_target"),
    (view(), view("/other/src/m.py"), "other_target"),
    (view(), call("str_replace_editor", command="view"), "missing_argument"),
    (view(), view(view_range=[1, 10]), "other_range"),
    (view(view_range=[10, 20]), view(), "other_range"),
    (view(view_range=[10, 20]), view(view_range=[11, 20]), "other_range"),
    (view(view_range=[10, 20]), view(view_range=[1, 200]), "other_range"),
    (view(view_range=[10, 20]), view(view_range=[20, 10]), "other_range"),
    (view(view_range=[10, 20]), view(view_range="all"), "other_range"),
    (view(view_range=[10, 20]), view(view_range=[10]), "other_range"),
    (view(), replace("a", "b"), "other_tool"),
    (replace("a = 1", "a = 2"), replace("a = 1", "a = 3"), "other_edit"),
    (replace("a = 1", "a = 2"), replace("a = 1", "a = 1"), "other_edit"),
    (replace("a = 1", "a = 2"), replace("b = 1", "b = 2"), "other_edit"),
    (replace("a = 1", "a = 2"), replace("a = 1", "a = 2", path="/repo/src/n.py"), "other_target"),
    (replace("a = 1", "a = 2"), call("Edit", old_string="a = 1", new_string="a = 2"), "missing_argument"),
    (replace("a = 1", "a = 2"), call("Write", file_path=PATH, content="a = 2"), "other_edit"),
    (call("think", thought="x"), call("think", thought=" "), "missing_argument"),
    (call("think", thought="x"), call("think"), "missing_argument"),
    (call("think", thought="x"), call("finish"), "other_tool"),
    (call("todo_write", todos=[{"id": 1}]), call("todo_write"), "missing_argument"),
    (call("todo_write", todos=[{"id": 1}]), call("read_todos"), "missing_argument"),
    (call("read_todos"), call("todo_write", todos=[{"id": 1}]), "other_value"),
    (call("task_tracker", command="view"), call("task_tracker", command="plan", task_list=[1]), "other_value"),
    (view(), bash("view", path=PATH), "other_tool"),
    (view(), call("magic", command="view", path=PATH), "other_tool"),
    (view(), call("str_replace_editor", path=PATH), "missing_argument"),
    (view(view_range=[1, 10]), view(view_range=[0, 10]), "other_range"),
    (view(), bash(f"cat {PATH}\nrm -rf b/a"), "other_tool"),
    (view(), bash(f"cat {PATH} | tac"), "other_tool"),
    (view(), bash(f"cat {PATH} > b"), "other_tool"),
    (view(view_range=[1, 20]), bash(f"cat {PATH} | head -n 20 | sh"), "other_tool"),
    (bash("sed -n '10,20p' src/m.py"), bash("sed -n '1,200p' src/m.py"), "other_command"),
    (bash("grep -rn foo src"), bash("rg -n foo lib"), "other_command"),
    (bash("ls", cwd="/a"), bash("ls"), "missing_argument"),
    (call("my_tool", q="x y z"), call("my_tool", q="x y w"), "other_value"),
    (call("my_tool", q="x"), call("your_tool", q="x"), "other_tool"),
    (call("new_issue", description="a"), call("new_issue", description="b"), "other_value"),
    (call("execute_ipython_cell", code="x = 'a'"), call("execute_ipython_cell", code=""), "missing_argument"),
    (call("execute_ipython_cell", code="x = 'a'"), call("execute_ipython_cell", code="x = 'b'"), "other_code"),
    (call("apply_changes", changes={"a": 1}), call("apply_changes", changes={"a": 2}), "missing_argument"),
    (bash("ls"), {"type": "function_call", "name": "bash", "arguments": "{"}, "arguments_not_json"),
    (bash("ls"), {"type": "function_call", "name": "bash", "arguments": "[]"}, "other_type"),
    (bash("ls"), {"type": "function_call", "name": ["bash"], "arguments": "{}"}, "other_tool"),
]


@pytest.mark.parametrize("expert, actual", SAME)
def test_the_same_job(expert, actual):
    verdict = judge(expert, actual)
    assert verdict.reward == 1, verdict


@pytest.mark.parametrize("expert, actual, reason", OTHER)
def test_another_job(expert, actual, reason):
    verdict = judge(expert, actual)
    assert (verdict.reward, verdict.reason) == (0, reason), verdict
    assert judge(expert, expert).reward == 1


def test_calls_are_counted():
    batch = {"type": "function_call_batch", "calls": [bash("ls"), view()]}
    assert judge(batch, view("src/m.py"), bash("ls")).reason == "calls_match"
    assert judge(batch, bash("ls")).reward == pytest.approx(2 / 3)
    assert judge(bash("ls"), bash("ls"), *[bash("pwd")] * 20).reward == pytest.approx(2 / 22)
    assert judge(bash("ls"), bash("ls"), bash("ls")).reward == pytest.approx(2 / 3)
    strict = build_verifier(VerifierConfig(name="swe", params={"count": "strict"}))
    assert strict.verify(Attempt(batch, [bash("ls")])).reward == 0
    assert strict.verify(Attempt(batch, [view(), bash("ls")])).reward == 1


def test_messages():
    assert judge(message("Done."), message("All is fixed.")).reason == "message_as_expected"
    assert judge(message("Done."), message(" ")).reason == "empty_message"
    assert judge(message("Done."), call("finish")).reason == "call_where_message_expected"
    assert judge(call("finish"), message("Done.")).reason == "message_where_call_expected"
    assert judge(message("Done.")).reason == "no_action"
    assert judge(bash("ls"), bash("ls"), text="<tool_call>\n{").reason == "format"


def test_plans_by_their_items():
    equal = build_verifier(VerifierConfig(name="swe", params={"planning": "equal"}))
    plan = call("todo_write", todos=[{"id": 1, "content": "a b"}])
    assert equal.verify(Attempt(plan, [call("todo_write", todos=[{"content": "a b", "id": 1}])])).reward == 1
    assert equal.verify(Attempt(plan, [call("todo_write", todos=[{"id": 2, "content": "a b"}])])).reward == 0


def tool(name, required, **properties):
    schema = {"type": "object", "properties": properties, "required": required}
    return {"type": "function", "function": {"name": name, "parameters": schema}}


def test_the_tools_schemas_are_heeded():
    string = {"type": "string"}
    tools = [tool("bash", ["command"], command=string, timeout={"type": "integer"}), tool("finish", ["message"], message=string)]  # fmt: skip  # noqa: E501
    assert judge(bash("ls"), bash("ls", timeout=3), tools=tools).reward == 1
    assert judge(bash("ls"), bash("ls", speed=3), tools=tools).reason == "unknown_argument"
    assert judge(bash("ls"), call("execute_bash", command="ls"), tools=tools).reason == "other_tool"
    assert judge(call("finish", message="a"), call("finish"), tools=tools).reason == "missing_argument"
    assert judge(bash("ls", odd=1), bash("ls", odd=1), tools=tools).reward == 1


def test_the_preset_of_swe_pivot_is_this_one():
    assert type(build_verifier(VerifierConfig(name="swe_pivot", preset="robust"))) is type(SWE)


@pytest.mark.parametrize("params", [{"count": "x"}, {"unknown": 1}, {"planning": 3}])
def test_unusable_parameters_are_a_users_error(params):
    with pytest.raises(ValueError, match=r"verifier\.params"):
        build_verifier(VerifierConfig(name="swe", params=params))


def check_all(calls):
    """Each earns 1 for itself, and 0 for another one, unless that does the same."""
    chosen = random.Random(3)
    for expert in calls:
        assert judge(expert, expert).reward == 1
        other = chosen.choice(calls)
        verdict, back = judge(expert, other), judge(other, expert)
        if verdict.reward:
            assert back.reward or "view_range" in expert["arguments"], (expert, other)
            assert expert["name"].lower()[:3] == other["name"].lower()[:3] or verdict.reason == "call_matches"
        else:
            assert json.loads(expert["arguments"]) != json.loads(other["arguments"]) or expert["name"] != other["name"]


def test_real_calls_of_swe_agent(shared_data):
    history = json.loads((shared_data / "trajectories" / "swe_agent_function_calling.traj").read_text())["history"]
    calls = [found["function"] for entry in history for found in entry.get("tool_calls") or ()]
    experts = [{"type": "function_call", "name": x["name"], "arguments": x["arguments"]} for x in calls]
    assert len(experts) >= 10
    check_all(experts)
    for index, expert in enumerate(experts):
        for other in experts[:index]:
            same = (expert["name"], json.loads(expert["arguments"])) == (other["name"], json.loads(other["arguments"]))
            assert judge(expert, other).reward == same, (expert, other)


def test_golden_experts(shared_data):
    rows = [json.loads(line) for line in (shared_data / "verifier_golden" / "swe_pivot.jsonl").open()]
    check_all([row["expected_action"] for row in rows])
    # What NVIDIA's verifier finds different in kind or target is different here, but for comments of a shell.
    for row in rows:
        verdict = judge(row["expected_action"], *row["response"])
        if row["peer_category"] in ("tool_name_mismatch", "target_mismatch"):
            assert verdict.reward == 0 or "# note" in row["response"][0]["arguments"], row


@pytest.mark.parametrize("mark", ["[Current working directory: /repo]", "(Current directory: /repo)\nbash-$"])
def test_relative_paths_start_from_the_working_directory(mark):
    ls = {"role": "assistant", "content": "", "tool_calls": [{"id": "c", "function": {"name": "bash"}}]}
    messages = [ls, {"role": "tool", "content": "src\n" + mark, "tool_call_id": "c"}]
    for expert, actual, reward in [
        (view("/repo/m.py"), view("m.py"), 1),
        (view("/repo/m.py"), bash("cat m.py"), 1),
        (view("m.py"), bash("cat /repo/m.py"), 1),
        (view("/m.py"), view("../m.py"), 1),
        (view("/repo/src/m.py"), view("src/m.py"), 1),
        (view("/repo/pkg/src/m.py"), view("src/m.py"), 0),
        (view("/src/m.py"), view("src/m.py"), 1),  # a tool may have another root
        (view("/repo/src/m.py"), view("m.py"), 0),
        (replace("a", "b", path="/repo/m.py"), replace("a", "b", path="m.py"), 1),
        (call("grep", pattern="a", path="/repo"), bash("grep -rn a ."), 1),
        (bash("cat /repo/m.py | wc"), bash("cat m.py | wc"), 1),
    ]:
        assert judge(expert, actual, messages=messages).reward == reward, (expert, actual)
    moved = {"role": "assistant", "tool_calls": [{"function": {"name": "bash", "arguments": '{"command": "cd /b"}'}}]}
    assert judge(view("/repo/m.py"), view("m.py"), messages=[*messages, moved]).reward == 0


def test_real_steps_of_swe_agent_in_another_form(shared_data):
    history = json.loads((shared_data / "trajectories" / "swe_agent_function_calling.traj").read_text())["history"]
    judged = 0
    for index, entry in enumerate(history):
        for function in (found["function"] for found in entry.get("tool_calls") or ()):
            name, given = function["name"], json.loads(function["arguments"])
            text, path = given.get("replacement_text", ""), given.get("path", "")
            for other, reward in {
                "bash": [({"command": "cd /testbed && " + given.get("command", "")}, 1), ({"command": "ls /"}, 0)],
                "create": [({"filename": "/testbed/reproduce.py"}, 1), ({"filename": "/tmp/reproduce.py"}, 0)],
                "open": [({"path": "/testbed/" + path}, 1), ({"path": "/x/" + path}, 0)],
                "edit": [
                    ({"replacement_text": text + "  # ok"}, 1),
                    ({"replacement_text": text.replace("e", "f", 1)}, 0),
                ],
                "find_file": [({"dir": "/testbed/src"}, 1), ({"dir": "/src"}, 0)],
            }.get(name, []):  # fmt: skip
                expert = {"type": "function_call", "name": name, "arguments": function["arguments"]}
                verdict = judge(expert, call(name, **given | other), messages=history[:index])
                assert verdict.reward == reward, (given, other, verdict)
                judged += 1
    assert judged >= 20
