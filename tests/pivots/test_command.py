"""tools/select_pivots.py as a user runs it."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.trajectories.rows import chat_row, write_rows

REPOSITORY = Path(__file__).resolve().parents[2]
COMMAND = [sys.executable, str(REPOSITORY / "tools" / "select_pivots.py")]


def run(*arguments, cwd):
    return subprocess.run([*COMMAND, *map(str, arguments)], cwd=cwd, capture_output=True, text=True, timeout=60)


def test_help_says_the_options(tmp_path):
    done = run("--help", cwd=tmp_path)
    assert done.returncode == 0 and "--inspect" in done.stdout


def test_inspection_counts_without_torch(tmp_path):
    path = write_rows(tmp_path / "a.jsonl", [chat_row("a"), chat_row("b"), "{"])
    done = run("--inspect", "--json", "--trajectories", path, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["files"] == {path: "openai_chat"}
    assert (found["rows"], found["trajectories"], found["assistant_turns"], found["bad_rows"]) == (3, 2, 4, 1)
    assert (found["calls"], found["message_turns"], found["messages"]) == (2, 2, 10)
    assert found["per_tool"] == {"get_order": 2, "(message)": 2}
    text = run("--trajectories", path, "trajectories.heldout_share=0.5", "--inspect", cwd=tmp_path)
    assert text.returncode == 0 and "a.jsonl line 3: malformed_json" in text.stdout
    code = f"import sys, runpy; sys.argv = ['x', '--inspect', '--trajectories', {path!r}]\n"
    code += f"try: runpy.run_path({COMMAND[1]!r}, run_name='__main__')\nexcept SystemExit: pass\n"
    code += "heavy = {'torch', 'vllm', 'transformers', 'megatron'} & set(sys.modules); assert not heavy, heavy"
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, timeout=60)


def config_file(tmp_path, **sections):
    tree = {"output": str(tmp_path / "run"), "model": {"path": str(tmp_path / "no-model")}, **sections}
    path = tmp_path / "run.yaml"
    path.write_text(yaml.safe_dump(tree))
    return path


@pytest.mark.parametrize(
    "arguments, says",
    [
        (["--trajectories", "missing.jsonl", "--inspect"], "missing.jsonl: cannot be read"),
        (["--trajectories", "a.jsonl", "bad.key=1", "--inspect"], "unknown key bad.key"),
        (
            ["--trajectories", "a.jsonl", "trajectories.format=[", "--inspect"],
            "'trajectories.format=[': '[' is not a YAML",
        ),
        (
            ["--trajectories", "a.jsonl", "trajectories.min_reward=2020-99-99", "--inspect"],
            "trajectories.min_reward: found '2020-99-99'",
        ),
        (
            ["--trajectories", "a.jsonl", "trajectories.format=zz", "--inspect"],
            "command line: trajectories.format: found 'zz'; input should be 'auto'",
        ),
        (["--config", "run.yaml", "--trajectories", "b.jsonl", "--out", "a.jsonl"], "--out: a.jsonl is no folder"),
        (["--config", "run.yaml", "--trajectories", "b.jsonl", "--out", "a.jsonl/x"], "--out: a.jsonl/x is no folder"),
        (["--trajectories", "a.jsonl"], "--config is missing"),
        (["--config", "run.yaml", "pivots.sampels=3"], "pivots.sampels; did you mean pivots.samples?"),
        (["--config", "run.yaml"], "trajectories.files"),
        (["--config", "run.yaml", "--trajectories", "a.jsonl"], "1 of 2 rows are bad"),
        (
            ["--config", "run.yaml", "--trajectories", "a.jsonl", "pivots.max_bad_share=1"],
            "model.path: there is no folder",
        ),
        (["--config", "run.yaml", "--trajectories", "a.jsonl", "verifier.name=magic"], "verifier.name: 'magic'"),
    ],
)
def test_a_users_error_is_one_clear_line_and_exit_code_2(tmp_path, arguments, says):
    write_rows(tmp_path / "a.jsonl", [chat_row(), "{"])
    write_rows(tmp_path / "b.jsonl", [chat_row(str(index)) for index in range(20)])
    config_file(tmp_path)
    done = run(*arguments, cwd=tmp_path)
    assert done.returncode == 2, done.stderr
    assert says in done.stderr and len(done.stderr.strip().splitlines()) == 1, done.stderr
