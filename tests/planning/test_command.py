"""tools/plan.py as a user meets it."""

import json
import resource
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

from pivotrl.planning.assumptions import Assumptions
from pivotrl.trajectories.records import Pivot, Profile, Turn
from pivotrl.trajectories.store import write_jsonl
from tests.planning.sizes import CONFIG

TOOL = Path(__file__).parents[2] / "tools" / "plan.py"
FIXED = [
    "parallel.tensor=4",
    "parallel.expert=8",
    "rollout.tensor=4",
    "rollout.kv_cache_gib=24",
    "rollout.sleep=false",
    "model.recompute=full",
]


def plan(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    monkeypatch.setattr(sys, "argv", ["plan.py", "--config", str(CONFIG), *arguments])
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(str(TOOL), run_name="__main__")
    return ended.value.code


def test_help_is_quick() -> None:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert "--layouts" in subprocess.run([sys.executable, TOOL, "--help"], capture_output=True, text=True).stdout
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < 1.0


def test_the_report_fits_a_terminal(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture) -> None:
    assert plan(monkeypatch, "--layouts", *FIXED) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) <= 66
    assert max(map(len, lines)) <= 118
    shown = "\n".join(lines)
    assert "Plan for 4 nodes of 8 GPUs, 32 ranks. Computed, not measured" in shown
    assert "H100: DOES NOT FIT" in shown
    assert "H200: fits" in shown
    assert "train_mfu 0.30 of the GPU's bf16 rate" in shown
    assert "memory of a rank, GiB" in shown
    save = next(line for line in lines if line.startswith("  save") and "every" in line)
    share, whole = float(save.split()[1]), float(save.split()[3])
    assert save.endswith("s of writing every 10 steps") and whole == pytest.approx(10 * share, abs=0.6)


def test_the_stage_that_the_memory_is_of_is_named_where_there_are_several(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    plan(monkeypatch, "--gpu", "h200", *FIXED, "parallel.pipeline=2")
    assert "memory of a rank of the first pipeline stage, GiB" in capsys.readouterr().out


def test_every_assumption_is_printed_with_words() -> None:
    assumed = Assumptions()
    words = assumed.in_words()
    assert [line.split()[0].rstrip(":") for line in words] == list(assumed.described())
    assert max(map(len, words)) <= 57


def test_exit_codes(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture) -> None:
    assert plan(monkeypatch, "--gpu", "h100", *FIXED) == 1
    assert plan(monkeypatch, "--gpu", "h100", *FIXED, "rollout.kv_cache_gib=8") == 0
    capsys.readouterr()
    assert plan(monkeypatch, "parallel.expert=48") == 2
    assert capsys.readouterr().err.startswith("plan: parallel.expert is 48, which does not divide num_experts 128")
    assert plan(monkeypatch, "--nodes", "0") == 2
    assert plan(monkeypatch, "model.path=models/unknown") == 2
    assert "give its folder with --hf, or one of Qwen3-" in capsys.readouterr().err


def test_the_word_refit_is_another_table(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture) -> None:
    monkeypatch.setattr(sys, "argv", ["plan.py", "refit", "--config", str(CONFIG), "--nodes", "2", *FIXED])
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(str(TOOL), run_name="__main__")
    said = capsys.readouterr().out
    assert ended.value.code == 0 and "floor of the refit on H100" in said and "4 engines of 4" in said
    assert plan(monkeypatch, "refit") == 2
    assert "refit" in capsys.readouterr().err


def test_options_may_stand_among_the_overrides(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture) -> None:
    assert plan(monkeypatch, "rollout.kv_cache_gib=24", "--nodes", "2", "--json", "parallel.tensor=2") in (0, 1)
    found = json.loads(capsys.readouterr().out)
    assert (found["ranks"], found["config"]["parallel"]["tensor"]) == (16, 2)


@pytest.mark.parametrize(
    ("arguments", "number"),
    [
        (["--nodes", "1000000000"], "8,000,000,000 ranks"),
        (["training.pivots_per_step=1000000000"], "16,000,000,000 samples"),
        (["training.group_size=1000000000"], "64,000,000,000 samples"),
        (["rollout.kv_cache_gib=1e300"], "rollout.kv_cache_gib is 1e+300"),
    ],
)
def test_a_mistyped_amount_is_answered_at_once(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture, arguments: list[str], number: str
) -> None:
    assert plan(monkeypatch, *arguments) == 2
    said = capsys.readouterr().err
    assert number in said and said.count("\n") == 1


def test_json_has_what_the_text_has(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture) -> None:
    assert plan(monkeypatch, "--json", "--gpu", "h100", "--nodes", "2", *FIXED) == 1
    found = json.loads(capsys.readouterr().out)
    assert found["ranks"] == 16
    assert found["measured_on_a_gpu"] is False
    train = found["memory"]["phases"]["train"]
    assert train["total"] == sum(size for name, size in train.items() if name != "total")
    h100 = found["gpus"]["H100"]
    assert not h100["fits"]
    assert "GiB in train" in h100["refusal"]
    seconds = h100["seconds"]
    assert seconds["step"] == pytest.approx(sum(value for name, value in seconds.items() if name != "step"))
    assert "expert_imbalance" in found["assumptions"]


def test_the_sizes_of_another_folder(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture, tmp_path: Path
) -> None:
    published = Path(__file__).parents[2] / "pivotrl" / "planning" / "published" / "Qwen3-30B-A3B" / "config.json"
    (tmp_path / "config.json").write_text(json.dumps(json.loads(published.read_text()) | {"num_hidden_layers": 24}))
    plan(monkeypatch, "--hf", str(tmp_path), "--json", *FIXED)
    assert 15e9 < json.loads(capsys.readouterr().out)["model"]["parameters"] < 16e9


def test_prompts_are_as_long_as_the_runs_own_pivots(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture, tmp_path: Path
) -> None:
    turn = Turn("t", "t", 0, 1, [], [], {"type": "message", "content": "x"}, {}, "s", "train")
    profile = Profile("t", [1.0, 0.0], ["a", "b"], 0.5, 0.25, "p", {})
    (tmp_path / "pivots").mkdir()
    pivots = [Pivot(turn, profile, [1] * length, "h") for length in (100, 200, 600)]
    write_jsonl(tmp_path / "pivots" / "pivots.jsonl", (pivot.to_json() for pivot in pivots))
    plan(monkeypatch, "--json", *FIXED, f"output={tmp_path}")
    assert json.loads(capsys.readouterr().out)["lengths"] == {"prompt": 300, "response": 1000}
    plan(monkeypatch, "--json", "--prompt-tokens", "50", *FIXED, f"output={tmp_path}")
    assert json.loads(capsys.readouterr().out)["lengths"]["prompt"] == 50
