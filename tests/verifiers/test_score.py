"""tools/score.py as a user runs it."""

import errno
import importlib.util
import io
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from pivotrl.verifiers.base import VerifierConfig
from pivotrl.verifiers.progress import Progress
from pivotrl.verifiers.rows import RowReader
from pivotrl.verifiers.score_files import Outputs
from pivotrl.verifiers.scoring import score

REPOSITORY = Path(__file__).resolve().parents[2]
COMMAND = REPOSITORY / "tools" / "score.py"
CALL = {"type": "function_call", "name": "f", "arguments": '{"a": 1}'}
MESSAGE = {"type": "message", "content": "hello"}
RIGHT = {"expected_action": CALL, "response": [CALL]}
WRONG = {"expected_action": CALL, "response": [MESSAGE]}


def command_module():
    spec = importlib.util.spec_from_file_location("score_command", COMMAND)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def call_command(monkeypatch, *arguments):
    """The command in this process, judging here unless told otherwise; its exit code."""
    words = [str(word) for word in arguments]
    monkeypatch.setattr(sys, "argv", ["score.py", *words, *([] if "--workers" in words else ["--workers", "0"])])
    return command_module().main()


def run(*arguments, cwd):
    words = [sys.executable, str(COMMAND), *map(str, arguments)]
    return subprocess.run(words, cwd=cwd, capture_output=True, text=True, timeout=60)


def write(path, *rows):
    path.write_text("".join((row if isinstance(row, str) else json.dumps(row)) + "\n" for row in rows))
    return path


def read(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_help_is_quick(tmp_path):
    start = time.perf_counter()
    done = run("--help", cwd=tmp_path)
    assert done.returncode == 0 and "--audit" in done.stdout
    assert time.perf_counter() - start < 5, "a loaded machine; 0.05 s on an idle one"


def test_rows_are_judged_in_order_by_workers_without_torch(tmp_path):
    write(tmp_path / "in.jsonl", {**RIGHT, "id": "b", "reward": 0.5}, {**WRONG, "id": 7}, "{", RIGHT)
    done = run("--verifier", "tool_call", "--rows", "in.jsonl", "--out", "new/out.jsonl", "--workers", 2, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert read(tmp_path / "new" / "out.jsonl") == [
        {"id": "b", "reward": 1.0, "reason": "call_matches", "detail": ""},
        {"id": 7, "reward": 0.0, "reason": "message_where_call_expected", "detail": ""},
        {"id": 3, "reward": 1.0, "reason": "call_matches", "detail": ""},
    ]
    (bad,) = read(tmp_path / "new" / "out.rejected.jsonl")
    assert list(bad) == ["file", "row", "reason", "found", "write", "id"]
    assert (bad["file"], bad["row"], bad["id"], bad["reason"]) == ("in.jsonl", "line 3", 2, "malformed_json")
    lines = done.stdout.splitlines()
    assert lines[1].split() == ["call_matches", "2", "66.7%", "1.000"]
    assert lines[3].split() == ["all", "3", "100.0%", "0.667"]
    assert lines[4].startswith("3 rows in ") and lines[4].endswith(" rows/s")
    assert lines[5] == "rejected 1 rows (malformed_json 1): see new/out.rejected.jsonl"
    code = (
        f"import sys, runpy; sys.argv = ['x', '--verifier=exact', '--rows={tmp_path}/in.jsonl', '--out={tmp_path}/o']\n"
    )
    code += (
        f"try: runpy.run_path({str(COMMAND)!r}, run_name='__main__')\nexcept SystemExit as end: assert not end.code\n"
    )
    code += "heavy = {'torch', 'vllm', 'transformers', 'megatron'} & set(sys.modules); assert not heavy, heavy"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60, stdout=subprocess.DEVNULL)


def test_no_rejected_file_is_left_from_a_run_before(monkeypatch, tmp_path):
    out, rejected = tmp_path / "out.jsonl", tmp_path / "out.rejected.jsonl"
    rejected.write_text("old\n")
    rows = write(tmp_path / "in.jsonl", "")
    assert call_command(monkeypatch, "--verifier", "tool_call", "--rows", rows, "--out", out) == 2
    assert rejected.exists(), "a run that failed leaves what was there"
    write(rows, RIGHT)
    assert call_command(monkeypatch, "--verifier", "tool_call", "--rows", rows, "--out", out) == 0
    assert not rejected.exists() and sorted(path.name for path in tmp_path.iterdir()) == ["in.jsonl", "out.jsonl"]


@pytest.mark.parametrize("name", ["tool_call", "swe_pivot", "terminal"])
def test_golden_verdicts_all_agree(monkeypatch, tmp_path, shared_data, name):
    rows, out = shared_data / "verifier_golden" / f"{name}.jsonl", tmp_path / "out.jsonl"
    assert call_command(monkeypatch, "--verifier", name, "--rows", rows, "--out", out) == 0
    expected = [(row["id"], row["reward"]) for row in read(rows)]
    found = [(row["id"], row["reward"]) for row in read(out)]
    assert [pair for pair in zip(found, expected) if pair[0] != pair[1]] == [] and len(found) == len(expected)


def test_real_pivot_rows_are_read(monkeypatch, tmp_path, shared_data):
    for name, verifier in (("single_step_tool_use_example", "tool_call"), ("terminus_judge_example", "exact")):
        rows = read(shared_data / "nemo_gym" / f"{name}.jsonl")
        for row in rows:
            row["response"] = [row["expected_action"] if "expected_action" in row else message(row["expected_answer"])]
        path, out = write(tmp_path / f"{name}.jsonl", *rows), tmp_path / "out.jsonl"
        assert call_command(monkeypatch, "--verifier", verifier, "--rows", path, "--out", out) == 0
        assert [row["reward"] for row in read(out)] == [1.0] * len(rows) and not (
            tmp_path / "out.rejected.jsonl"
        ).exists()


def message(text):
    return {"type": "message", "content": [{"type": "output_text", "text": text}]}


def test_parameters_of_the_command_and_of_rows(monkeypatch, tmp_path):
    expert = {"type": "function_call", "name": "f", "arguments": '{"s": "one two three"}'}
    actual = {"type": "function_call", "name": "f", "arguments": '{"s": "one two four"}'}
    row = {"expected_action": expert, "response": [actual]}
    own = {**row, "params": {"word_count_similarity_threshold": 0.3}}
    rows = write(
        tmp_path / "in.jsonl", row, own, {**row, "params": {"treshold": 1}}, {**row, "verifier": {"name": "exact"}}
    )
    out, param = tmp_path / "out.jsonl", "word_count_similarity_threshold=0.4"
    assert call_command(monkeypatch, "--verifier", "tool_call", "--param", param, "--rows", rows, "--out", out) == 0
    assert [row["reward"] for row in read(out)] == [0.0, 1.0, 0.0]
    assert read(out)[2]["reason"] == "not_equal"
    (bad,) = read(tmp_path / "out.rejected.jsonl")
    assert bad["reason"] == "bad_params" and "treshold" in bad["found"] and "word_count" in bad["write"]


def test_dotted_parameters_nest():
    parameters = command_module().parameters
    assert parameters(["a.b=1", "a.c=[x, y]", "d=2e-3", "e=no", "f="]) == {
        "a": {"b": 1, "c": ["x", "y"]},
        "d": "2e-3",
        "e": False,
        "f": None,
    }


@pytest.mark.parametrize(
    "arguments, says",
    [
        (["--verifier", "magic"], "'magic' is not a verifier; write one of tool_call"),
        (["--preset", "best"], "verifier.preset: found 'best'"),
        (["--verifier", "exact", "--preset", "nemo_gym"], "exact has no preset 'nemo_gym'"),
        (["--param", "treshold=1"], "verifier.params.treshold"),
        (["--param", "threshold"], "--param 'threshold': write name=value"),
        (["--param", "a.=1"], "--param 'a.=1': write name=value"),
        (["--param", "a=[", "--param", "b=1"], "'[' is not a YAML value"),
        (["--param", "a=1", "--param", "a.b=1"], "a was given a value before"),
        (["--workers", "-1"], "verifier.workers: found -1"),
        (["--seconds", "0"], "verifier.seconds: found 0"),
        (["--rows", "missing.jsonl"], "missing.jsonl: cannot be read"),
        (["--rows", "empty.jsonl"], "there are no rows"),
        (["--rows", "bad.jsonl"], "no row can be judged: rejected 2 rows (malformed_json 2): see o.rejected.jsonl"),
        (["--rows", "bad_array.json"], "item 1"),
        (["--out", "in.jsonl"], "--out: in.jsonl is a file that is read"),
        (["--out", "folder"], "--out: folder is no file"),
        (["--out", "in.jsonl/o.jsonl"], "--out: in.jsonl/o.jsonl cannot be written"),
        (["--out", "x" * 300], "cannot be written (File name too long)"),
        (["--rows", "x" * 300], "cannot be read (File name too long)"),
        (["--out", "/dev/null"], "--out: /dev/null is no file"),
        (["--rows", "text.jsonl", "--tokenizer", "missing"], "--tokenizer: there is no folder missing"),
    ],
)
def test_mistakes_are_one_line_and_leave_the_old_result(monkeypatch, tmp_path, capsys, arguments, says):
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "in.jsonl", RIGHT)
    write(tmp_path / "empty.jsonl", "", "  ")
    write(tmp_path / "bad.jsonl", "5", "{")
    write(tmp_path / "text.jsonl", {"expected_action": CALL, "text": "hi"})
    (tmp_path / "bad_array.json").write_text(f"[{json.dumps(RIGHT)}, {{")
    (tmp_path / "folder").mkdir()
    (tmp_path / "o.jsonl").write_text("old\n")
    given = {"--verifier": "tool_call", "--rows": "in.jsonl", "--out": "o.jsonl"}
    words = [word for pair in given.items() if pair[0] not in arguments for word in pair]
    assert call_command(monkeypatch, *words, *arguments) == 2
    said = capsys.readouterr().err
    assert says in said and said.count("\n") == 1 and said.startswith("score: ")
    assert (tmp_path / "o.jsonl").read_text() == "old\n"
    assert not list(tmp_path.glob("**/*.tmp"))
    assert (tmp_path / "o.rejected.jsonl").exists() == ("bad.jsonl" in arguments)


@pytest.mark.parametrize(
    "arguments, says",
    [
        (["--verifier", "exact", "--out", "o"], "--rows is missing"),
        (["--verifier", "exact", "--audit"], "--audit needs --rows IN.jsonl, or --trajectories FILE"),
        (["--verifier", "exact", "--rows", "r"], "--out is missing"),
        (
            ["--verifier", "exact", "--rows", "r", "--out", "o", "--trajectories", "t"],
            "--trajectories belongs to --audit",
        ),
    ],
)
def test_missing_arguments_are_named(monkeypatch, capsys, arguments, says):
    with pytest.raises(SystemExit) as end:
        call_command(monkeypatch, *arguments)
    assert end.value.code == 2 and says in capsys.readouterr().err


def test_a_failure_on_the_way_leaves_the_old_result(tmp_path):
    """As a kill does: what is new lies beside the old file until all of it is there."""
    out = tmp_path / "out.jsonl"
    out.write_text("old\n")
    rows = write(tmp_path / "in.jsonl", "{", *[RIGHT] * 3000)
    run_section = VerifierConfig(workers=0)

    def breaks():
        for index, row in enumerate(RowReader(rows, run_section, None)):
            if index == 2500:
                assert out.read_text() == "old\n" and (tmp_path / "out.jsonl.tmp").exists()
                raise KeyboardInterrupt
            yield row

    with pytest.raises(KeyboardInterrupt):
        score(breaks(), run_section, Outputs(str(out), [str(rows)]), say=print)
    assert out.read_text() == "old\n" and sorted(path.name for path in tmp_path.iterdir()) == ["in.jsonl", "out.jsonl"]


def test_a_full_disk_is_one_line(monkeypatch, tmp_path, capsys):
    out = write(tmp_path / "o.jsonl", "1")
    rows = write(tmp_path / "in.jsonl", "{", RIGHT)

    def full(path, rows):
        list(rows)
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("pivotrl.verifiers.score_files.write_jsonl", full)
    assert call_command(monkeypatch, "--verifier", "exact", "--rows", rows, "--out", out) == 2
    assert "o.jsonl cannot be written (No space left on device); make room" in capsys.readouterr().err
    assert out.read_text() == "1\n" and not list(tmp_path.glob("*.tmp"))


def test_what_lies_where_the_result_is_begun_is_not_overwritten(monkeypatch, tmp_path, capsys):
    rows = write(tmp_path / "o.jsonl.tmp", RIGHT)
    before = rows.read_text()
    assert call_command(monkeypatch, "--verifier", "exact", "--rows", rows, "--out", tmp_path / "o.jsonl") == 2
    assert "o.jsonl.tmp is a file that is read" in capsys.readouterr().err and rows.read_text() == before


def test_a_pipe_is_named(monkeypatch, tmp_path, capsys):
    reading, writing = os.pipe()
    os.write(writing, b"{}\n")
    os.close(writing)
    arguments = ["--rows", f"/dev/fd/{reading}", "--out", tmp_path / "o.jsonl"]
    assert call_command(monkeypatch, "--verifier", "exact", *arguments) == 2
    os.close(reading)
    assert "a pipe; files are read more than once: write it to a file" in capsys.readouterr().err


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_without_leavings(tmp_path, number):
    (tmp_path / "slow.py").write_text(
        "import time\nfrom pivotrl.verifiers.base import Verifier\n\n\n"
        "class Slow(Verifier):\n    def __init__(self, params): pass\n"
        "    def verify(self, attempt, params=None):\n        time.sleep(60)\n"
    )
    write(tmp_path / "in.jsonl", RIGHT)
    (tmp_path / "o.jsonl").write_text("old\n")
    words = ["--verifier", "slow:Slow", "--rows", "in.jsonl", "--out", "o.jsonl", "--workers", "0"]
    command = subprocess.Popen(
        [sys.executable, str(COMMAND), *words], cwd=tmp_path, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    deadline = time.monotonic() + 60
    while not (tmp_path / "o.jsonl.tmp").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    time.sleep(0.2)
    command.send_signal(number)
    said = command.communicate(timeout=30)[1]
    assert command.returncode == 128 + number and said.count("\n") <= 1, said
    assert (tmp_path / "o.jsonl").read_text() == "old\n" and not list(tmp_path.glob("*.tmp"))


def test_rows_are_streamed(tmp_path):
    """At most two chunks are held, however many rows there are; long rows make short chunks."""
    rows = write(tmp_path / "in.jsonl", {"expected_action": CALL, "text": "x" * 200_000})
    (row,) = RowReader(rows, VerifierConfig(), lambda text, tools: [])
    written = tmp_path / "out.jsonl.tmp"
    most = 0

    def many():
        nonlocal most
        for index in range(1000):
            judged = written.read_text().count("\n") if index % 50 == 0 and written.exists() else None
            most = max(most, index - judged if judged else 0)
            yield row

    score(many(), VerifierConfig(workers=0), Outputs(str(tmp_path / "out.jsonl"), []), say=lambda text: None)
    assert (tmp_path / "out.jsonl").read_text().count("\n") == 1000
    assert 0 < most < 400


def test_raw_completions_are_parsed(monkeypatch, tmp_path):
    text = '<tool_call>\n{"name": "f", "arguments": {"a": 1}}\n</tool_call>'
    rows = write(
        tmp_path / "in.jsonl",
        {"expected_action": CALL, "text": text},
        {"expected_action": CALL, "text": "f(a=1) \ud800"},
        {"expected_action": MESSAGE, "text": "<think>\nHm.\n</think>\n\nhello", "verifier": {"name": "exact"}},
    )
    out = tmp_path / "out.jsonl"
    words = ["--verifier", "tool_call", "--rows", rows, "--out", out, "--tool-parser", "hermes"]
    assert call_command(monkeypatch, *words) == 0
    assert [row["reward"] for row in read(out)] == [1.0, 0.0, 0.0]
    assert call_command(monkeypatch, *words, "--reasoning-parser", "qwen3") == 0
    assert [row["reward"] for row in read(out)] == [1.0, 0.0, 1.0]
    # This parser looks its markup up among the tokenizer's tokens, and takes text without </think> for a thought.
    assert call_command(monkeypatch, *words, "--reasoning-parser", "deepseek_r1") == 0
    assert [row["reward"] for row in read(out)] == [0.0, 0.0, 1.0]


def test_an_unknown_parser_is_named(monkeypatch, tmp_path, capsys):
    rows = write(tmp_path / "in.jsonl", {"expected_action": CALL, "text": "hi"})
    words = ["--verifier", "tool_call", "--rows", rows, "--out", tmp_path / "o", "--tool-parser", "hermess"]
    assert call_command(monkeypatch, *words) == 2
    said = capsys.readouterr().err
    assert said.startswith("score: --tool-parser is 'hermess'") and "; did you mean hermes" in said, said


@pytest.mark.parametrize(
    "arguments, says",
    [
        (["message=similar"], "message is a parameter of tool_call with preset robust; the parameters are: word_count"),
        (["alow_subset=true"], "did you mean allow_subset?; the parameters are"),
        (["mesage=similar"], "did you mean message, a parameter of tool_call with preset robust?"),
        (["zzz=1"], "verifier.params.zzz: Extra inputs are not permitted; the parameters are"),
    ],
)
def test_an_unknown_parameter_is_named_with_the_one_that_was_meant(monkeypatch, tmp_path, capsys, arguments, says):
    rows = write(tmp_path / "in.jsonl", RIGHT)
    words = ["--verifier", "tool_call", "--rows", rows, "--out", tmp_path / "o", "--param", *arguments]
    assert call_command(monkeypatch, *words) == 2
    said = capsys.readouterr().err
    assert says in said and said.count("\n") == 1


def test_loading_the_parsers_is_no_time_of_judging(tmp_path):
    class Slow:
        seconds_to_load = 0.0

        def __call__(self, text, tools):
            time.sleep(0.3)
            self.seconds_to_load = 0.3
            return [MESSAGE]

    rows = write(tmp_path / "in.jsonl", {"expected_action": MESSAGE, "text": "hello"})
    run_section, parser, said = VerifierConfig(workers=0), Slow(), []
    outputs = Outputs(str(tmp_path / "out.jsonl"), [])
    assert score(RowReader(rows, run_section, parser), run_section, outputs, say=said.append, parser=parser)
    (line,) = [line for line in said[0].splitlines() if line.startswith("1 rows in ")]
    assert line.startswith("1 rows in 0.0 s: ") and line.endswith(" rows/s (beside 0.3 s to load vLLM's parsers)")


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_progress_is_said_while_a_verdict_takes_long():
    stream = io.StringIO()
    with Progress("rows", stream, every=0.05) as progress:
        progress.add(3)
        time.sleep(0.4)
        progress.add(1)
        time.sleep(0.4)
    lines = stream.getvalue().splitlines()
    assert lines[0] == "judged 3 rows in 0 s" and lines[-1].startswith("judged 4 rows in ") and len(lines) > 4


def test_on_a_terminal_one_line_is_written_over_and_cleared(monkeypatch):
    monkeypatch.setattr("pivotrl.verifiers.progress.QUIET_SECONDS", 0.05)
    stream = Terminal()
    with Progress("probes", stream, every=0.05):
        time.sleep(0.4)
    assert "\n" not in stream.getvalue() and stream.getvalue().endswith("\r" + " " * 22 + "\r")
    stream.close()
    with Progress("probes", stream, every=0.05) as progress:
        time.sleep(0.2)
        progress.add(1)


def test_a_quick_run_says_nothing_on_standard_error(monkeypatch, tmp_path, capsys):
    rows = write(tmp_path / "in.jsonl", RIGHT)
    assert call_command(monkeypatch, "--verifier", "exact", "--rows", rows, "--out", tmp_path / "o") == 0
    assert capsys.readouterr().err == ""
