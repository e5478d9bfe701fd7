"""Pivots written as NeMo-Gym rows are read back as the same turns."""

import copy
import json
import subprocess
import sys
from pathlib import Path

import pytest

from pivotrl.pivots.export import export, export_row
from pivotrl.pivots.select import make_profile
from pivotrl.trajectories.config import TrajectoriesConfig
from pivotrl.trajectories.records import Pivot
from pivotrl.trajectories.store import write_json, write_jsonl
from pivotrl.trajectories.turns import TurnReader
from tests.trajectories.rows import SINGLE_STEP, call, chat_row, nemotron_rows, write_rows

REPOSITORY = Path(__file__).resolve().parents[2]
DATA = REPOSITORY / "tests" / "trajectories" / "data"
SAMPLES = ["swe_agent.traj", "mini_swe_agent.traj.json", "atif.json", "sharegpt.jsonl"]


def turns_of(*paths, **settings):
    config = TrajectoriesConfig(files=[str(path) for path in paths], heldout_share=0, **settings)
    return list(TurnReader(config, 0))


def pivot_of(turn, rewards=(1.0, 0.0, 0.0, 0.0)):
    return Pivot(turn, make_profile(turn.id, list(rewards), ["r"] * len(rewards), "policy", {"n": 4}), [1, 2], "hash")


def round_trip(tmp_path, turns):
    write_jsonl(tmp_path / "pivots.jsonl", (pivot_of(turn).to_json() for turn in turns))
    assert export(tmp_path, tmp_path / "rows.jsonl") == len(turns)
    back = turns_of(tmp_path / "rows.jsonl")
    assert len(back) == len(turns)
    for turn, read in zip(turns, back, strict=True):
        assert json.dumps(read.messages, sort_keys=True) == json.dumps(turn.messages, sort_keys=True)
        assert json.dumps(read.tools) == json.dumps(turn.tools), "templates show keys in their order"
        assert (read.expert, read.metadata) == (turn.expert, turn.metadata)
        assert read.trajectory_id == f"rows:{turn.trajectory_id}"
    return back


@pytest.mark.parametrize("name", SAMPLES)
def test_round_trip_of_the_samples(tmp_path, name):
    assert not any(turn.verifier for turn in round_trip(tmp_path, turns_of(DATA / name)))


def test_round_trip_of_nemo_gym_rows_keeps_their_verifiers(tmp_path):
    turns = turns_of(write_rows(tmp_path / "p.jsonl", list(nemotron_rows().values())))
    assert [turn.verifier for turn in round_trip(tmp_path, turns)] == [turn.verifier for turn in turns]
    rows = [json.loads(line) for line in (tmp_path / "rows.jsonl").read_text().splitlines()]
    agents = [row["agent_ref"]["name"] for row in rows]
    assert agents[2:] == [f"{SINGLE_STEP}_swe", "terminus_judge_string_only_simple_agent"]
    assert ["expected_answer" in row for row in rows] == [False, False, False, True]


def test_round_trip_of_odd_histories(tmp_path):
    row = copy.deepcopy(chat_row())
    row["messages"][1:1] = [
        {"role": "assistant", "content": ""},
        {"role": "assistant", "content": None, "tool_calls": [call(identity="a"), call(identity="b", arguments="{")]},
        {"role": "assistant", "content": None, "tool_calls": [call(identity="c")]},
        {"role": "assistant", "content": "", "reasoning_content": "hm", "tool_calls": [call(identity="d")]},
        {"role": "tool", "tool_call_id": "b", "name": "get_order", "content": ""},
        {"role": "assistant", "content": "", "reasoning_content": "I think"},
        {"role": "system", "content": "\u20ac"},
    ]
    row["tools"][0]["function"]["strict"] = False
    row["metadata"] = {"a": 1}
    back = round_trip(tmp_path, [turns_of(write_rows(tmp_path / "a.jsonl", [row]))[-1]])
    assert len(back[0].messages) == 11


@pytest.mark.parametrize("name", ["tau_bench_airline_gpt4o.json", "swe_agent_function_calling.traj"])
def test_round_trip_of_real_trajectories(shared_data, tmp_path, name):
    round_trip(tmp_path, turns_of(shared_data / "trajectories" / name)[:200])


def test_round_trip_of_real_nemo_gym_rows(shared_data, tmp_path):
    round_trip(tmp_path, turns_of(*sorted((shared_data / "nemo_gym").glob("*.jsonl"))))


def test_a_row_has_nemo_gyms_keys(tmp_path):
    first, second = turns_of(write_rows(tmp_path / "a.jsonl", [chat_row()]))
    row = export_row(pivot_of(first, [1.0, 0.5, 0.0, 1.0]), {"name": "tool_call"})
    assert row["responses_create_params"] == {
        "input": [
            {"type": "message", "role": "system", "content": "Be brief."},
            {"type": "message", "role": "user", "content": "Where is A-1?"},
        ],
        "tools": [
            {
                "type": "function",
                "name": "get_order",
                "parameters": {"type": "object", "properties": {}},
                "strict": None,
            }
        ],
        "parallel_tool_calls": False,
    }
    assert row["expected_action"] == {"type": "function_call", "name": "get_order", "arguments": '{"order_id": "A-1"}'}
    assert row["agent_ref"] == {"type": "responses_api_agents", "name": f"{SINGLE_STEP}_agent"}
    assert (row["pass_rate"], row["pass_rate_total"], row["pass_rate_passed"]) == (0.5, 4, 2)
    assert row["pivotrl_profile"]["mean"] == 0.625 and row["pivotrl_profile"]["rewards"] == [1.0, 0.5, 0.0, 1.0]
    assert "metadata" not in row and "verifier" not in row, "null and empty keys are left out"
    terminal = export_row(pivot_of(second), {"name": "terminal"})
    assert terminal["expected_answer"] == "It is on its way." and "expected_action" not in terminal


def test_the_summary_tells_the_runs_verifier(tmp_path):
    turns = turns_of(write_rows(tmp_path / "a.jsonl", [chat_row()]))
    write_jsonl(tmp_path / "pivots.jsonl", [pivot_of(turns[0]).to_json()])
    for verifier, agent in (
        ({"name": "search", "params": {}}, f"search_pivot_{SINGLE_STEP}_agent"),
        ({"name": "tool_call", "params": {"word_count_similarity_threshold": 0.0}}, f"{SINGLE_STEP}_swe"),
        ({"name": "my.own:Verifier", "params": {"a": 1}}, f"{SINGLE_STEP}_agent"),
    ):
        write_json(tmp_path / "summary.json", {"verifier": verifier})
        export(tmp_path / "pivots.jsonl", tmp_path / "rows.jsonl")
        assert json.loads((tmp_path / "rows.jsonl").read_text())["agent_ref"]["name"] == agent


def run(*arguments, cwd):
    command = [sys.executable, str(REPOSITORY / "tools" / "export_pivots.py"), *map(str, arguments)]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=60)


def test_the_command(tmp_path):
    turns = turns_of(DATA / "swe_agent.traj")
    write_jsonl(tmp_path / "pivots.jsonl", (pivot_of(turn).to_json() for turn in turns))
    done = run(".", "--out", "rows.jsonl", cwd=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "4 rows in rows.jsonl\n", "")
    assert len((tmp_path / "rows.jsonl").read_text().splitlines()) == 4


def test_no_pivots_are_said(tmp_path):
    (tmp_path / "pivots.jsonl").write_text("")
    done = run(".", "--out", "rows.jsonl", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "") and (tmp_path / "rows.jsonl").read_text() == ""
    assert done.stdout.startswith("0 rows in rows.jsonl: no pivots in .: look at the outcomes, reasons and rejections")


@pytest.mark.parametrize(
    "arguments, says",
    [
        (["missing", "--out", "x.jsonl"], "missing: no pivots there"),
        (["empty", "--out", "x.jsonl"], "no pivots there"),
        (["bad.jsonl", "--out", "x.jsonl"], "bad.jsonl:2: not a pivot"),
        (["hurt.jsonl", "--out", "x.jsonl"], "hurt.jsonl:1: not a pivot (KeyError: 'role')"),
        (["pivots.jsonl", "--out", "no/x.jsonl"], "--out: no/x.jsonl cannot be written"),
        (["pivots.jsonl", "--out", "empty"], "--out: empty cannot be written"),
        (["pivots.jsonl", "--out", "pivots.jsonl"], "is the file of pivots itself"),
        (["told", "--out", "x.jsonl"], "summary.json: not a selection's summary"),
    ],
)
def test_a_users_error_is_one_clear_line_and_exit_code_2(tmp_path, arguments, says):
    (tmp_path / "empty").mkdir()
    (tmp_path / "told").mkdir()
    (turn, _) = turns_of(write_rows(tmp_path / "a.jsonl", [chat_row()]))
    row = pivot_of(turn).to_json()
    for name in ("pivots.jsonl", "told/pivots.jsonl"):
        write_jsonl(tmp_path / name, [row])
    (tmp_path / "told" / "summary.json").write_text('{"verifier": 7}')
    (tmp_path / "bad.jsonl").write_text(json.dumps(row) + "\n{}\n")
    row["turn"]["messages"][0].pop("role")
    write_jsonl(tmp_path / "hurt.jsonl", [row])
    done = run(*arguments, cwd=tmp_path)
    assert done.returncode == 2, done.stderr
    assert says in done.stderr and len(done.stderr.strip().splitlines()) == 1, done.stderr
    assert not (tmp_path / "x.jsonl").exists()
