"""`shell` on calls and messages, self-made and real."""

import json

import pytest

from pivotrl.verifiers.attempt import Attempt
from pivotrl.verifiers.base import VerifierConfig
from pivotrl.verifiers.registry import build_verifier


def shell(**params):
    return build_verifier(VerifierConfig(name="shell", params=params))


def call(name="bash", **arguments):
    return {"type": "function_call", "name": name, "arguments": json.dumps(arguments)}


def message(text):
    return {"type": "message", "content": text}


def fenced(command, language="bash"):
    return message(f"I look around.\n\n```{language}\n{command}\n```")


@pytest.mark.parametrize(
    ("expert", "item", "reward", "reason"),
    [
        (call(command="ls -la"), call(command="ls -a -l"), 1, "call_matches"),
        (call(command="ls -la"), call(command="ls"), 0, "other_flags"),
        (call(command="ls -la", timeout=5), call(command="ls -al", timeout=5), 1, "call_matches"),
        (call(command="ls -la", timeout=5), call(command="ls -al", timeout=6), 0, "other_value"),
        (call(command=["bash", "-lc", "ls -la"]), call(command=["bash", "-lc", "ls -al"]), 1, "call_matches"),
        (call(cmd="ls -la"), call(cmd="ls -al"), 1, "call_matches"),
        (call(command="ls"), call("shell", command="ls"), 0, "other_tool"),
        (call(command="ls"), call(cmd="ls"), 0, "missing_argument"),
        (call(command="ls"), call(command=["l", 3]), 0, "other_type"),
        (call(command="ls"), fenced("ls"), 0, "message_where_call_expected"),
        (fenced("ls -la", "mswea_bash_command"), fenced("ls -al"), 1, "message_as_expected"),
        (fenced("ls -la"), message("Let me see.\n```\nls -al\n```\n"), 1, "message_as_expected"),
        (fenced("ls -la"), fenced("ls"), 0, "other_flags"),
        (fenced("ls"), message("```\nls\n```\n```\nls\n```"), 0, "not_parsed"),
        (fenced("ls"), message(""), 0, "empty_message"),
        (fenced("ls"), call(command="ls"), 0, "call_where_message_expected"),
    ],
)
def test_verdicts(expert, item, reward, reason):
    verdict = shell().verify(Attempt(expert, [item]))
    assert (verdict.reward, verdict.reason) == (reward, reason)


def test_two_calls_in_any_order():
    batch = {"type": "function_call_batch", "calls": [call(command="ls -la"), call(command="cat ./a")]}
    items = [call(command="cat a"), call(command="ls -al")]
    assert shell().verify(Attempt(batch, items)).reward == 1
    assert shell().verify(Attempt(batch, items[:1])).reason == "number_of_calls"
    assert shell().verify(Attempt(batch, [*items, items[0]])).reason == "number_of_calls"


def test_parameters():
    expert, item = call(command="cd /r && cat a"), call(command="cat /r/a")
    assert shell().verify(Attempt(expert, [item])).reward == 1
    assert shell(persistent=True).verify(Attempt(expert, [item])).reward == 0
    assert shell().verify(Attempt(expert, [item]), {"persistent": True}).reward == 0
    relative = Attempt(call(command="cat a"), [item])
    assert shell().verify(relative).reward == 0
    assert shell(cwd="/r").verify(relative).reward == 1
    other = Attempt(call(text="ls -la", note="x y"), [call(text="ls -al", note="x y")])
    assert shell(argument="text").verify(other).reward == 1
    with pytest.raises(ValueError, match=r"verifier\.params\.folder"):
        shell(folder="/r")


def test_real_calls_and_messages_against_each_other(shared_data):
    run = json.loads((shared_data / "trajectories" / "swe_agent_function_calling.traj").read_text())
    calls = [
        {"type": "function_call", "name": one["function"]["name"], "arguments": one["function"]["arguments"]}
        for entry in run["history"]
        for one in entry.get("tool_calls") or ()
    ]
    assert len(calls) == 11
    messages = [
        message(entry["content"])
        for entry in json.loads((shared_data / "trajectories" / "mini_swe_agent.traj.json").read_text())
        if entry["role"] == "assistant"
    ]
    assert len(messages) >= 9
    for actions, key in ((calls, _call), (messages, _block)):
        for expert in actions:
            for item in actions:
                same = key(expert) == key(item)
                assert shell().verify(Attempt(expert, [item])).reward == same, (expert, item)
    block = next(text for text in map(_block, messages) if text == "ls -la")
    assert shell().verify(Attempt(fenced(block), [fenced("ls -a -l .")])).reward == 1


def _call(action):
    """Its name and arguments; the space around an edit's text is for `code_edit` to judge."""
    given = json.loads(action["arguments"])
    return action["name"], {name: value.strip() if isinstance(value, str) else value for name, value in given.items()}


def _block(action):
    return action["content"].split("```")[1].split("\n", 1)[1].strip()
