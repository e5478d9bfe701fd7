"""`terminal_functional`: Terminus answers, calls of shell tools, fenced messages."""

import json

import pytest

from pivotrl.verifiers.attempt import Attempt
from pivotrl.verifiers.base import VerifierConfig
from pivotrl.verifiers.registry import build_verifier
from pivotrl.verifiers.shell.keystrokes import compare_keystrokes

TERMINAL = build_verifier(VerifierConfig(name="terminal_functional"))


def two(*keystrokes, complete=None, **more):
    answer = {"analysis": "a", "plan": "p", "commands": [{"keystrokes": text} for text in keystrokes], **more}
    return json.dumps(answer if complete is None else {**answer, "task_complete": complete})


def one(*keystrokes, complete=False, blocking=True, seconds=1):
    commands = [{"keystrokes": text, "is_blocking": blocking, "timeout_sec": seconds} for text in keystrokes]
    answer = {"state_analysis": "a", "explanation": "e", "commands": commands, "is_task_complete": complete}
    return json.dumps(answer)


def judge(expert, text, verifier=TERMINAL, **metadata):
    return verifier.verify(
        Attempt({"type": "message", "content": expert}, [{"type": "message", "content": text}], metadata=metadata)
    )


@pytest.mark.parametrize(
    ("expert", "text", "reason"),
    [
        (two("ls -la\n"), two("ls -a -l\n"), "equivalent"),
        (two("a\n", "b\n"), two("a\nb\n"), "equivalent"),
        (two("ls\n"), two("", "ls\n", ""), "equivalent"),
        (two("C-c", "ls\n"), two("C-c", "ls\n"), "equivalent"),
        (two("cat <<EOF > f\n", "x\nEOF\n"), two("cat > f <<'E'\nx\nE\n"), "equivalent"),
        (two("ls\n"), two("ls\n", complete=False), "equivalent"),
        (two("ls\n"), "<think>so</think>\n" + two("ls\n"), "equivalent"),
        (two("ls\n"), json.dumps(json.loads(two("ls\n")) | {"analysis": "other", "plan": "other"}), "equivalent"),
        (one("ls -la\n"), one("ls -al\n", blocking=False, seconds=9.5), "equivalent"),
        (two("print(1)\n", "x = (\n"), two("print(1)\nx = (\n"), "equivalent"),
        (two("ls\n", complete=True), two("ls\n", complete=True), "equivalent"),
        (two("ls\n", complete=True), two("ls\n"), "task_complete"),
        (two("ls\n"), two("ls\n", complete=True), "task_complete"),
        (one("ls\n"), one("ls\n", complete=True), "task_complete"),
        (two("ls\n"), two("ls"), "not_sent"),
        (two("ls"), two("ls\n"), "not_sent"),
        (two("ls\n", "q"), two("ls\n", "w"), "other_keys"),
        (two("C-c"), two("C-d"), "other_keys"),
        (two("C-c", "ls\n"), two("ls\n", "C-c"), "other_keys"),
        (two("ls\n", "C-c"), two("ls\n"), "other_keys"),
        (two("ls\n"), two("ls\n", "Enter"), "other_keys"),
        (two("\n"), two(), "other_keys"),
        (two("\n"), two("ls\n"), "other_keys"),
        (two(), two("ls\n"), "other_keys"),
        (two("a\n", "b\n"), two("b\n", "a\n"), "other_order"),
        (two("ls -l\n"), two("ls\n"), "other_flags"),
        (two("cd /a && ls\n"), two("ls /a\n"), "other_command"),
        (two("ls\n"), two("ls\n", x=1), "schema"),
        (two("ls\n"), one("ls\n"), "schema"),
        (two("ls\n"), "```json\n" + two("ls\n") + "\n```", "schema"),
        (two("ls\n"), "Here: " + two("ls\n"), "schema"),
        (two("ls\n"), two("ls\n") + two("ls\n"), "schema"),
        (
            two("ls\n"),
            '{"analysis": "", "plan": "", "commands": [{"keystrokes": "ls\\n", "duration": true}]}',
            "schema",
        ),
        (two("ls\n"), '{"analysis": "", "plan": "", "commands": [{"keystrokes": 1}]}', "schema"),
        (two("ls\n"), '{"plan": "", "plan": "", "analysis": "", "commands": [{"keystrokes": "ls\\n"}]}', "schema"),
        (two("ls\n"), "[]", "schema"),
        (two("ls\n"), "", "empty_message"),
        (two("ls\n"), "<think>so" + two("ls\n"), "format"),
    ],
)
def test_terminus_answers(expert, text, reason):
    verdict = judge(expert, text)
    assert verdict.reason == reason, verdict
    assert verdict.reward == (reason == "equivalent")


def test_the_harness_is_the_rows_or_told_from_the_expert():
    assert judge(one("ls\n"), one("ls\n"), harness="terminus_1").reward == 1
    assert judge(one("ls\n"), one("ls\n"), harness="terminus_2").reason == "expected_answer_invalid"
    assert judge(two("ls\n"), two("ls\n"), harness=["odd"]).reward == 1
    told = build_verifier(VerifierConfig(name="terminal", preset="robust", params={"harness": "terminus_1"}))
    assert judge(two("ls\n"), two("ls\n"), told).reason == "expected_answer_invalid"
    assert judge('{"commands": 3}', two("ls\n")).reason == "expected_answer_invalid"


def test_a_call_and_a_second_message_are_no_answer():
    expert = {"type": "message", "content": two("ls\n")}
    call = {"type": "function_call", "name": "bash", "arguments": "{}"}
    item = {"type": "message", "content": two("ls\n")}
    assert TERMINAL.verify(Attempt(expert, [call])).reason == "call_where_message_expected"
    assert TERMINAL.verify(Attempt(expert, [item, {"type": "message", "content": "and"}])).reason == "format"
    assert TERMINAL.verify(Attempt(expert, [])).reason == "no_action"


@pytest.mark.parametrize(
    ("expert", "item", "reason"),
    [
        (("bash", {"command": "ls -la"}), ("execute_bash", {"cmd": "ls -al", "timeout": 5}), "call_matches"),
        (("bash", {"command": "ls -la", "timeout": 3}), ("bash", {"command": "ls -al"}), "call_matches"),
        (("bash", {"command": "ls"}), ("bash", {"command": "ls", "is_input": True}), "unknown_argument"),
        (("bash", {"command": "ls"}), ("bash", {}), "missing_argument"),
        (("bash", {"command": "ls -la"}), ("bash", {"command": "ls -l"}), "other_flags"),
        (("bash", {"command": "ls"}), ("view", {"command": "ls"}), "other_tool"),
        (("view", {"path": "a"}), ("view", {"path": "a"}), "call_matches"),
        (("view", {"path": "a"}), ("view", {"path": "b"}), "other_value"),
        (("bash", {"command": "cd /r && ls"}), ("bash", {"command": "ls /r"}), "other_command"),
    ],
)
def test_calls_of_shell_tools(expert, item, reason):
    made = [{"type": "function_call", "name": name, "arguments": json.dumps(given)} for name, given in (expert, item)]
    verdict = TERMINAL.verify(Attempt(made[0], [made[1]]))
    assert (verdict.reason, verdict.reward) == (reason, float(reason == "call_matches"))


def test_messages():
    assert judge("So.\n```bash\nls -la\n```", "Thus.\n```\nls -al\n```").reward == 1
    assert judge("So.\n```bash\nls -la\n```", "Thus.").reward == 0
    assert judge("The task is complete.", "The task is complete.").reward == 1
    assert judge("The task is complete.", "The task is not complete.").reward == 0
    assert judge("The task is complete.", " ").reward == 0


def test_keys_by_their_names_and_other_text():
    same = [["C-c"], ["C-M-x"], ["Enter"], ["F12"], ["^C"], ["Up", "Enter"], ["y\n"], [":wq\n"], ["q"]]
    for keys in same:
        assert compare_keystrokes(keys, keys) is None
        assert compare_keystrokes(keys, ["", *keys]) is None
        assert compare_keystrokes(keys, [*keys, "C-z"]) is not None
        assert compare_keystrokes([*keys, "C-z"], keys) is not None
    assert compare_keystrokes(["C-c"], ["C-c\n"]) is not None, "with a line end it is typed, letter by letter"
    assert compare_keystrokes(["cat a", "\n"], ["cat  a\n"]) is None
    assert compare_keystrokes(["cat a\n"], ["cat /r/a\n"], cwd="/r") is None
    assert compare_keystrokes(["cd /r; cat a\n"], ["cat /r/a\n"], persistent=False) is None


def test_real_answers_against_each_other(shared_data):
    lines = (shared_data / "nemo_gym" / "terminus_judge_example.jsonl").read_text().splitlines()
    rows = [json.loads(line) for line in lines]
    assert len(rows) == 5
    for row in rows:
        for other in rows:
            verdict = judge(row["expected_answer"], other["expected_answer"], **row["metadata"])
            assert verdict.reward == (_typed(row) == _typed(other)), (row, other)
    answer = json.loads(rows[1]["expected_answer"])
    assert answer["commands"][0]["keystrokes"] == "pip list | grep oauth\n"
    answer["commands"] = [{"keystrokes": "pip  list|grep 'oauth'\n", "is_blocking": False, "timeout_sec": 1}]
    assert judge(rows[1]["expected_answer"], json.dumps(answer), **rows[1]["metadata"]).reward == 1


def _typed(row):
    answer = json.loads(row["expected_answer"])
    return [command["keystrokes"] for command in answer["commands"]]


def test_labelled_answers(shared_data):
    """What NVIDIA's check refuses for its form, or for a task not ended, is refused here too; what is typed the same,
    and ends the task alike, is right."""
    judged = 0
    for line in (shared_data / "verifier_golden" / "terminal.jsonl").read_text().splitlines():
        row = json.loads(line)
        attempt = Attempt(
            {"type": "message", "content": row["expected_answer"]}, row["response"], metadata=row["metadata"]
        )
        verdict = TERMINAL.verify(attempt)
        if row["peer_category"] in ("schema_check_failed", "model_output_invalid", "task_complete_check_failed"):
            assert verdict.reward == 0, (row, verdict)
            judged += 1
        if verdict.reward == 1:
            assert row["peer_category"] in ("none", "string_similarity_below_threshold"), (row, verdict)
            judged += 1
    assert judged > 30
