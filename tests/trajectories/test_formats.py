"""The formats of other programs, on the self-made files in `data/`."""

import json
from pathlib import Path

import pytest

from pivotrl.trajectories.config import TrajectoriesConfig
from pivotrl.trajectories.inspection import describe, inspect
from pivotrl.trajectories.readers.detect import READERS, detect_format
from pivotrl.trajectories.records import Rejected
from pivotrl.trajectories.turns import TurnReader
from tests.trajectories.rows import call, chat_row, nemotron_rows, write_rows

DATA = Path(__file__).parent / "data"


def read(*paths, **settings):
    items = list(TurnReader(TrajectoriesConfig(files=[str(path) for path in paths], **settings), 0))
    return [x for x in items if not isinstance(x, Rejected)], [x for x in items if isinstance(x, Rejected)]


def turns_of(*paths, **settings):
    turns, rejected = read(*paths, **settings)
    assert not rejected, [str(item) for item in rejected]
    return turns


def sample(name):
    text = (DATA / name).read_text(encoding="utf-8")
    return json.loads(text)


def rejection(tmp_path, row, format):
    turns, rejected = read(write_rows(tmp_path / "x.jsonl", [row]), format=format)
    assert not turns and len(rejected) == 1
    return rejected[0]


@pytest.mark.parametrize(
    "name, format",
    [
        ("swe_agent.traj", "swe_agent"),
        ("mini_swe_agent.traj.json", "mini_swe_agent"),
        ("atif.json", "atif"),
        ("sharegpt.jsonl", "sharegpt"),
    ],
)
def test_detection_and_inspection_of_each_format(tmp_path, name, format):
    path = str(DATA / name)
    assert detect_format(path) == format
    found = inspect(TrajectoriesConfig(files=[path]), 0)
    assert found["bad_rows"] == 0 and sum(found["per_tool"].values()) == found["assistant_turns"] > 0
    assert f"{path}: {format}" in describe(found)
    if name.endswith(("json", "traj")):  # the same object as one line, and in an array
        row = sample(name)
        line, array = write_rows(tmp_path / "l.jsonl", [row, row]), write_rows(tmp_path / "a.json", [json.dumps([row])])
        assert detect_format(line) == detect_format(array) == format
        assert [turn.expert for turn in turns_of(array)] == [turn.expert for turn in turns_of(path)]
        assert len(turns_of(line)) == 2 * len(turns_of(path))


def test_detection_tells_neighbours_apart(tmp_path):
    def of(row):
        return detect_format(write_rows(tmp_path / "x.jsonl", [row]))

    fenced = {"role": "assistant", "content": "Look.\n\n```mswea_bash_command\nls\n```"}
    user = {"role": "user", "content": "hi"}
    assert of(json.dumps([user, fenced])) == "mini_swe_agent"
    assert of(json.dumps([user, {"role": "assistant", "content": "hello"}])) == "openai_chat"
    assert of(chat_row(info={"exit_status": "Submitted"})) == "mini_swe_agent"
    assert of(chat_row(info={"depth": 3})) == "openai_chat"
    assert of({"messages": [{"from": "human", "value": "hi"}]}) == "sharegpt"
    assert of({"history": [{"role": "user", "content": "x"}]}) == "swe_agent"
    assert of(nemotron_rows()["terminal"]) == "nemo_gym", "its schema_version is no ATIF version"
    for other in ({"history": [["a", "b"]], "instruction": "x"}, {"conversations": []}, [1]):
        with pytest.raises(ValueError, match="format not recognised") as caught:
            of(json.dumps(other))
        assert all(name in str(caught.value) for name in READERS)


def test_swe_agent():
    turns = turns_of(DATA / "swe_agent.traj")
    assert [turn.id for turn in turns] == [f"swe_agent:0/{index}" for index in range(4)]
    first, second = turns[0], turns[1]
    assert [message["role"] for message in first.messages] == ["system", "assistant", "tool", "user"]
    assert first.messages[3]["content"].startswith("clamp() returns None") and first.n_turns == 4
    assert first.expert == {"type": "function_call", "name": "bash", "arguments": '{"command": "ls"}'}
    assert second.messages[4]["reasoning_content"] == "The file must be near."
    assert second.messages[5] == {"role": "tool", "tool_call_id": "call_1", "content": "clamp.py"}
    assert not any("reviewer" in message["content"] for message in turns[3].messages)
    assert [tool["function"]["name"] for tool in first.tools] == ["bash", "str_replace_editor", "submit"]
    assert first.metadata == {"instance_id": "swe_agent", "exit_status": "submitted"}


def test_swe_agent_tools_are_those_of_all_files_and_issues_are_not_split(tmp_path):
    row = sample("swe_agent.traj")
    paths = []
    for trial in range(40):
        folder = tmp_path / f"{trial}"
        folder.mkdir()
        row["history"][4]["tool_calls"] = [call(f"tool_{trial % 2}", "{}", "call_1")]
        paths.append(write_rows(folder / f"issue-{trial // 4}.traj", [json.dumps(row, indent=1)]))
    turns = turns_of(*paths, heldout_share=0.5)
    assert {len(turn.tools) for turn in turns} == {4 + 1}
    by_issue: dict[str, set[str]] = {}
    for turn in turns:
        by_issue.setdefault(turn.metadata["instance_id"], set()).add(turn.split)
    assert len(by_issue) == 10 and all(len(splits) == 1 for splits in by_issue.values())
    assert len({turn.id for turn in turns}) == len(turns) == 160
    given = write_rows(tmp_path / "tools.json", ['[{"name": "f"}]'])
    assert [tool["function"]["name"] for tool in turns_of(paths[0], tools=given)[0].tools] == ["f"]


def test_swe_agent_without_function_calls(tmp_path):
    entries = [
        {"role": "system", "content": "Act.", "agent": "primary"},
        {"role": "user", "content": "Here is a demonstration: ...", "agent": "demo", "is_demo": True},
        {"role": "user", "content": "Fix it.", "agent": "primary"},
        {
            "role": "assistant",
            "content": "Look.\n```\nls\n```",
            "thought": "Look.",
            "action": "ls\n",
            "agent": "primary",
        },
        {"role": "user", "content": "a.py", "agent": "primary"},
    ]
    old = write_rows(tmp_path / "old.traj", [json.dumps({"history": entries}, indent=4)])
    turns = turns_of(old, DATA / "swe_agent.traj")
    assert turns[0].expert == {"type": "message", "content": "Look.\n```\nls\n```"} and turns[0].tools == []
    assert len(turns[0].messages) == 2 and len(turns) == 5 and len(turns[1].tools) == 3


def test_min_reward_asks_for_a_reward_that_the_agents_do_not_write(tmp_path):
    _, rejected = read(DATA / "swe_agent.traj", min_reward=1)
    assert [item.reason for item in rejected] == ["no_reward"]
    solved = {**sample("swe_agent.traj"), "reward": 1}
    assert len(turns_of(write_rows(tmp_path / "a.traj", [solved]), min_reward=1)) == 4
    assert len(turns_of(DATA / "atif.json", min_reward=1)) == 2


def test_mini_swe_agent(tmp_path):
    turns = turns_of(DATA / "mini_swe_agent.traj.json")
    assert [turn.expert["name"] for turn in turns] == ["bash", "bash"] and turns[0].tools[0]["function"][
        "name"
    ] == "bash"
    assert turns[1].messages[-1]["content"].startswith("<returncode>0") and "extra" not in turns[1].messages[-1]
    assert turns[0].metadata == {"instance_id": "demo__lines-1", "exit_status": "Submitted"}
    fenced = "THOUGHT: look.\n\n```bash\nls\n```"
    listed = [
        {"role": "user", "content": "x"},
        {"role": "assistant", "content": fenced},
        {"role": "exit", "content": ""},
    ]
    (turn,) = turns_of(write_rows(tmp_path / "a.traj.json", [json.dumps(listed, indent=2)]))
    assert turn.expert == {"type": "message", "content": fenced} and turn.tools == [] and turn.source.endswith("item 0")


def test_mini_swe_agent_with_the_responses_api(tmp_path):
    row = sample("mini_swe_agent.traj.json")
    output = [
        {"type": "reasoning", "summary": [{"type": "summary_text", "text": "Count."}]},
        {"type": "function_call", "call_id": "c1", "name": "bash", "arguments": '{"command": "wc -l a.txt"}'},
    ]
    row["messages"][2:4] = [
        {"object": "response", "output": output, "extra": {}},
        {"type": "function_call_output", "call_id": "c1", "output": "3 a.txt", "extra": {}},
    ]
    turns = turns_of(write_rows(tmp_path / "a.traj.json", [json.dumps(row, indent=2)]))
    assert [turn.expert["type"] for turn in turns] == ["function_call", "function_call"]
    assert turns[1].messages[2]["reasoning_content"] == "Count." and turns[1].messages[3]["content"] == "3 a.txt"


def test_atif():
    first, second = turns_of(DATA / "atif.json")
    assert first.id == "atif:trial-7-main/0" and first.n_turns == 2
    assert [message["role"] for message in first.messages] == ["system", "user", "assistant"], "later system steps go"
    assert [json.loads(item["arguments"])["item"] for item in first.expert["calls"]] == ["B-220", "B-221"]
    after = second.messages[4:]
    assert [(message["role"], message.get("tool_call_id"), message["content"]) for message in after] == [
        ("tool", "c2", "on loan"),
        ("tool", "c1", "on the shelf"),
        ("user", None, "The desk closes soon."),
        ("assistant", None, "Routing."),
        ("user", None, "Still there?"),
    ]
    assert second.messages[3]["reasoning_content"] == "Two calls."
    assert first.tools[0]["function"]["name"] == "lookup" and first.metadata["agent"] == "desk-agent"


def test_atif_faults_name_the_place(tmp_path):
    def fault(change):
        row = sample("atif.json")
        change(row)
        return rejection(tmp_path, row, "atif")

    found = fault(lambda row: row["steps"][4]["tool_calls"][1].update(arguments="{}"))
    assert found.reason == "bad_atif" and "steps.4.tool_calls.1.arguments" in found.found
    assert "step_id" in fault(lambda row: row["steps"][2].update(step_id=9)).found
    assert fault(lambda row: row.update(schema_version="ATIF-v2.0")).write == "write ATIF-v1.0 to ATIF-v1.8"
    assert fault(lambda row: row["steps"][6].update(source="robot")).reason == "bad_atif"
    picture = {"type": "image", "source": {"media_type": "image/png", "path": "a.png"}}
    assert fault(lambda row: row["steps"][1].update(message=[picture])).reason == "content_not_text"
    assert fault(lambda row: row.update(extra={"reward": "high"})).reason == "bad_reward"
    nested = json.loads("[" * 300 + "]" * 300)
    assert fault(lambda row: row.update(extra={"a": nested})).reason == "nested_too_deeply"


@pytest.mark.parametrize("version", [f"ATIF-v1.{minor}" for minor in range(9)])
def test_every_atif_version_reads(tmp_path, version):
    steps = [
        {"step_id": 1, "source": "user", "message": "x", "timestamp": "2025-10-10T06:10:15.158090"},
        {
            "step_id": 2,
            "source": "agent",
            "message": '{"commands": []}',
            "observation": {"results": [{"content": "ok"}]},
        },
    ]
    row = {
        "schema_version": version,
        "session_id": "s",
        "agent": {"name": "terminus-2", "version": "2"},
        "steps": steps,
    }
    (turn,) = turns_of(write_rows(tmp_path / "x.jsonl", [row]))
    assert turn.expert["type"] == "message" and turn.metadata["harness"] == "terminus_2" and turn.tools == []


def test_sharegpt():
    turns = turns_of(DATA / "sharegpt.jsonl")
    kinds = ["function_call_batch", "message", "function_call", "message", "function_call", "message"]
    assert [turn.expert["type"] for turn in turns] == kinds
    plain = turns[3].messages
    assert plain[0] == {"role": "system", "content": "Be brief."} and plain[2]["content"] == "I ask for both."
    assert [message["content"] for message in plain[3:5]] == ["12 degrees", "30 degrees"]
    assert plain[3]["tool_call_id"] != plain[4]["tool_call_id"]
    assert [tool["function"]["name"] for tool in turns[0].tools] == ["get_weather"]
    assert json.loads(turns[4].expert["arguments"]) == {"symbol": "TSLA", "live": True, "note": "it's"}
    hermes = turns[5].messages[2]
    assert (hermes["content"], hermes["reasoning_content"]) == ("One moment.", "A lookup.")
    assert turns[5].messages[3]["content"] == '{"price": 7}'


@pytest.mark.parametrize(
    "talk, reason",
    [
        ([{"from": "human", "value": "x"}, {"from": "gpt", "value": "<tool_call>{"}], "bad_tool_calls"),
        ([{"from": "human", "value": "x"}, {"from": "gpt", "value": "<tool_call>f(1)</tool_call>"}], "bad_tool_calls"),
        (
            [{"from": "human", "value": "x"}, {"from": "gpt", "value": "<tool_call>{'name': __a()}</tool_call>"}],
            "bad_tool_calls",
        ),
        (
            [{"from": "human", "value": "x"}, {"from": "gpt", "value": f"<tool_call>{'[' * 9000}</tool_call>"}],
            "bad_tool_calls",
        ),
        (
            [
                {"from": "human", "value": "x"},
                {"from": "gpt", "value": f"<tool_call>{'[' * 300}{']' * 300}</tool_call>"},
            ],
            "nested_too_deeply",
        ),
        ([{"from": "human", "value": "x"}, {"from": "function_call", "value": '{"arguments": {}}'}], "bad_tool_calls"),
        ([{"from": "human", "value": "x"}, {"from": "observation", "value": "y"}], "tool_message_without_call"),
        ([{"from": "robot", "value": "x"}], "bad_role"),
        ([{"from": ["human"], "value": "x"}], "bad_role"),
        ([{"from": "human", "value": 7}], "not_text"),
        ([{"from": "human", "value": "x"}, {"from": "gpt", "value": "\ud800"}], "lone_surrogate"),
        ([], "no_messages"),
    ],
)
def test_faults_of_sharegpt(tmp_path, talk, reason):
    found = rejection(tmp_path, {"conversations": talk}, "sharegpt")
    assert found.reason == reason
    json.dumps(found.to_json()).encode("ascii")


def test_sharegpt_rows_with_pictures_and_bad_tools_are_refused(tmp_path):
    talk = [{"from": "human", "value": "<image> what?"}, {"from": "gpt", "value": "a cat"}]
    assert rejection(tmp_path, {"conversations": talk, "images": ["a.png"]}, "sharegpt").reason == "content_not_text"
    for tools in ("[", '"x"', "7", '[{"type": "web_search"}]'):
        assert rejection(tmp_path, {"conversations": talk, "tools": tools}, "sharegpt").reason == "bad_tools"
    assert turns_of(write_rows(tmp_path / "a.jsonl", [{"conversations": talk, "tools": " "}]))[0].tools == []


def test_text_without_markup_stays_as_it_is(tmp_path):
    says = "  a < b, and <think> is a tag\n"
    row = {"conversations": [{"from": "human", "value": "x"}, {"from": "gpt", "value": says}]}
    (turn,) = turns_of(write_rows(tmp_path / "a.jsonl", [row]))
    assert turn.expert == {"type": "message", "content": says}
