"""What a run leaves on the terminal can be pasted."""

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from pivotrl import command
from pivotrl.telemetry.closing import closing_words
from tests.telemetry.fake_run import make_run

REPOSITORY = Path(__file__).resolve().parents[2]


def finished(folder: Path) -> Path:
    run = make_run(folder)
    (run / "checkpoints").mkdir()
    (run / "checkpoints" / "latest").write_text("step_000060\n")
    return run


def lines(run: Path) -> dict[str, str]:
    return dict(line.split(":", 1) for line in closing_words(run, 0, 60).splitlines())


@pytest.fixture
def venv(tmp_path, monkeypatch) -> Path:
    """A repository whose .venv runs."""
    home = tmp_path / "repository"
    (home / ".venv" / "bin").mkdir(parents=True)
    monkeypatch.setattr(command, "REPOSITORY", home)
    monkeypatch.setattr(sys, "prefix", str(home / ".venv"))
    return home


def test_the_repositorys_python_is_named_from_the_current_folder(venv, tmp_path, monkeypatch):
    run = finished(tmp_path / "runs" / "a b")
    monkeypatch.chdir(venv)
    found = lines(Path(os.path.relpath(run, venv)))
    assert found["report"].strip() == ".venv/bin/python tools/report.py '../runs/a b'"
    assert found["weights"].strip() == (
        ".venv/bin/python tools/convert_hf.py to-hf --checkpoint '../runs/a b/checkpoints/step_000060' "
        "--out '../runs/a b/hf_step_000060'"
    )
    monkeypatch.chdir(tmp_path / "runs")
    assert lines(Path("a b"))["report"].strip().startswith("../repository/.venv/bin/python ../repository/tools/report")


def test_another_python_is_python(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    monkeypatch.chdir(REPOSITORY)
    assert lines(finished(tmp_path / "run"))["report"].strip() == f"python tools/report.py {tmp_path / 'run'}"


def test_the_reports_line_works_when_it_is_pasted_elsewhere(tmp_path, monkeypatch):
    if Path(sys.prefix).resolve() != (REPOSITORY / ".venv").resolve():
        pytest.skip("this Python is not the repository's")
    run = finished(tmp_path / "run")
    monkeypatch.chdir(tmp_path)
    line = lines(run.relative_to(tmp_path))["report"]
    done = subprocess.run(shlex.split(line), cwd=tmp_path, capture_output=True, text=True, env={}, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, "run/report.html\n", "")


@pytest.mark.parametrize(
    "arguments",
    [
        ["tools/report.py", "RUN"],
        ["tools/select_pivots.py", "--config", "configs/demo_cpu.yaml"],
        ["tools/select_pivots.py", "--inspect", "--trajectories", "RUN/no.jsonl"],
        ["tools/convert_hf.py", "verify", "--hf", "RUN"],
        ["-m", "pivotrl.train", "--config", "configs/demo_cpu.yaml"],
    ],
)
def test_a_python_without_the_packages_is_one_line(tmp_path, arguments):
    run = make_run(tmp_path / "run")
    words = [word.replace("RUN", str(run)) for word in arguments]
    # -S leaves out site-packages
    done = subprocess.run([sys.executable, "-S", *words], cwd=REPOSITORY, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2 and len(done.stderr.splitlines()) == 1, done.stderr
    assert "has no package '" in done.stderr and ".venv" in done.stderr


def test_an_export_needs_no_package(tmp_path):
    (tmp_path / "pivots.jsonl").write_text("")
    words = ["tools/export_pivots.py", str(tmp_path), "--out", str(tmp_path / "rows.jsonl")]
    subprocess.run([sys.executable, "-S", *words], cwd=REPOSITORY, capture_output=True, timeout=60, check=True)


def test_a_module_of_ours_that_is_missing_is_no_packages_fault():
    def work() -> int:
        raise ModuleNotFoundError("No module named 'pivotrl.x'", name="pivotrl.x")

    with pytest.raises(ModuleNotFoundError):
        command.with_packages("x", work)
