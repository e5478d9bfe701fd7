"""How policies are named, and what is said of those that are not there. And the command, before it starts anything."""

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from pivotrl.evaluation.source import Source, check_architecture, find_source, named_sources
from pivotrl.policy.architecture import Architecture
from tests.evaluation.reciter import BASE
from tests.launch import REPOSITORY


@pytest.fixture
def run(tmp_path) -> Path:
    for step in (20, 40):
        folder = tmp_path / "run" / "checkpoints" / f"step_{step:06d}"
        folder.mkdir(parents=True)
        (folder / "checksums.json").write_text("{}")
        (folder / ".metadata").write_text("")
    (tmp_path / "run" / "checkpoints" / "latest").write_text("step_000040")
    return tmp_path / "run"


def test_every_way_to_name_a_policy(run, tmp_path):
    newest, early = (Source("checkpoint", run / "checkpoints" / f"step_0000{step}") for step in (40, 20))
    assert find_source(str(run), "nowhere") == newest
    assert find_source(f"{run}:step=20", "nowhere") == early == find_source("step=20", str(run))
    assert find_source(str(run / "checkpoints" / "step_000020"), "nowhere") == early
    assert find_source(str(BASE), "nowhere") == Source("huggingface", BASE)
    found = named_sources([f"late={run}", "early=step=20"], str(run))
    assert found == {"late": (str(run), newest), "early": ("step=20", early)}


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (["late"], "write NAME=SOURCE"),
        (["=x"], "write NAME=SOURCE"),
        (["base=RUN"], "call it something else than base: it is the name of model.path"),
        (["a=RUN", "a=RUN"], "call it something else than a: it is there already"),
        (["a=RUN:step=30"], "there is no .*step_000030; steps with a checkpoint: 20, 40"),
        (["a=step=1"], "steps with a checkpoint: none"),
        (["a=nowhere"], "nowhere: no such folder"),
        (["a=RUN/checkpoints"], "neither a Hugging Face folder"),
    ],
)
def test_what_is_not_there_is_said(run, given, says):
    with pytest.raises(ValueError, match=says) as caught:
        named_sources([one.replace("RUN", str(run)) for one in given], "empty")
    assert "\n" not in str(caught.value)


def test_a_run_that_has_no_checkpoint_yet(tmp_path):
    (tmp_path / "checkpoints").mkdir()
    with pytest.raises(ValueError, match="no checkpoint yet"):
        find_source(str(tmp_path), "x")


def test_another_architecture_is_named_by_its_first_difference(tmp_path):
    arch = Architecture.from_hf(BASE)
    check_architecture(Source("huggingface", BASE), arch)
    check_architecture(Source("checkpoint", tmp_path), arch)  # seen when it is read
    with pytest.raises(ValueError, match=f"another architecture than model.path's: vocab is {arch.vocab}, not 700"):
        check_architecture(Source("huggingface", BASE), replace(arch, vocab=700))


def test_the_command_finds_mistakes_before_it_starts_anything(tmp_path):
    wide = tmp_path / "wide"
    wide.mkdir()
    (wide / "config.json").write_text(json.dumps(json.loads((BASE / "config.json").read_text()) | {"hidden_size": 256}))
    command = [
        sys.executable,
        str(REPOSITORY / "tools/evaluate.py"),
        "--config",
        "configs/demo_cpu.yaml",
        f"output={tmp_path}",
    ]

    def says(*arguments):
        done = subprocess.run([*command, *arguments], cwd=REPOSITORY, capture_output=True, text=True, timeout=300)
        assert done.returncode == 2 and done.stderr.count("\n") == 1 and not done.stdout, done
        return done.stderr

    assert "another architecture than model.path's: hidden is 256, not 128" in says("--policy", f"wide={wide}")
    assert "trajectories.files" in says("trajectories.files=[]")
