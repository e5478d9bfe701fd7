"""The set-up script's decisions, in a copy of the files it reads; nothing is installed here."""

import hashlib
import os
import re
import shutil
import subprocess
import sys
import time
import tomllib
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[1]
KERNEL = ("csrc/group_loss.cu", "csrc/group_loss.h")
NOWHERE = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": "", "PIP_CONFIG_FILE": os.devnull, "UV_OFFLINE": "1"}


@pytest.fixture
def copy(tmp_path) -> Path:
    root = tmp_path.resolve() / "with space"
    (root / "tools").mkdir(parents=True)
    shutil.copy(REPOSITORY / "pyproject.toml", root)
    shutil.copy(REPOSITORY / "tools" / "setup.sh", root / "tools")
    (root / "csrc").mkdir()
    for name in KERNEL:
        shutil.copy(REPOSITORY / name, root / name)
    return root


def set_up(root: Path, **env: str) -> subprocess.CompletedProcess[str]:
    command = ["bash", str(root / "tools" / "setup.sh")]
    return subprocess.run(command, env=os.environ | env, capture_output=True, text=True, timeout=180, cwd="/")


def pretend_finished(root: Path) -> None:
    """A .venv that is this Python, with the stamp that a finished set-up leaves."""
    (root / ".venv" / "bin").mkdir(parents=True)
    (root / ".venv" / "bin" / "python").symlink_to(sys.executable)
    version = subprocess.run([root / ".venv/bin/python", "-VV"], capture_output=True, check=True).stdout
    made_from = b"".join((root / name).read_bytes() for name in ("pyproject.toml", "tools/setup.sh", *KERNEL)) + version
    stamp = hashlib.sha256(made_from + f"{root}\n".encode()).hexdigest()
    (root / ".venv" / "setup.stamp").write_text(stamp + "\n")


def test_a_finished_set_up_costs_next_to_nothing(copy):
    pretend_finished(copy)
    started = time.monotonic()
    done = set_up(copy)
    assert (done.returncode, done.stderr) == (0, "")
    assert time.monotonic() - started < 3


@pytest.mark.parametrize("change", ["a dependency changed", "an unwanted package is back", "the folder moved"])
def test_what_makes_a_set_up_stale(copy, change):
    pretend_finished(copy)
    if change == "a dependency changed":
        (copy / "pyproject.toml").open("a").write("\n# changed\n")
    elif change == "an unwanted package is back":
        (copy / ".venv/lib/python3.11/site-packages/torchvision").mkdir(parents=True)
    else:
        copy = copy.rename(copy.with_name("moved"))
    done = set_up(copy, PIVOTRL_PYTHON="/no/such/python")  # so that it stops where it would begin to install
    assert done.returncode == 2
    assert "PIVOTRL_PYTHON=/no/such/python cannot be used" in done.stderr


def test_a_python_that_is_too_old_is_named_with_what_is_needed(copy, tmp_path):
    old = tmp_path / "python-old"
    old.write_text(
        f"#!/bin/sh\nexec {sys.executable} -c \"import sys; sys.version_info = (3, 9, 18); sys.version = '3.9.18'\n"
        'exec(sys.argv[1])" "$2"\n'
    )
    old.chmod(0o755)
    done = set_up(copy, PIVOTRL_PYTHON=str(old))
    assert done.returncode == 2
    assert "it is Python 3.9.18; PivotRL needs >= 3.11 and < 3.15" in done.stderr


def test_a_long_step_shows_that_it_is_alive_and_its_failure_ends_the_line(copy, tmp_path):
    script = copy / "tools" / "setup.sh"
    script.write_text(script.read_text().replace("alive_every=30", "alive_every=1"))
    slow = tmp_path / "python-slow"
    slow.write_text(f'#!/bin/sh\n[ "$1" = -m ] || exec {sys.executable} "$@"\nsleep 3.5\nexit 1\n')
    slow.chmod(0o755)
    done = set_up(copy, PIVOTRL_PYTHON=str(slow))
    assert done.returncode == 1
    assert re.search(r"^\[setup\] 1/7 virtual environment +\.{2,4} FAILED$", done.stderr, re.M), done.stderr
    assert "Terminated" not in done.stderr


def test_a_step_s_dots_hold_nobody_up(copy):
    """What waits for the end of the output does not wait for the next dot."""
    started = time.monotonic()
    failing = copy / "python-failing"
    failing.write_text(f'#!/bin/sh\n[ "$1" = -m ] || exec {sys.executable} "$@"\nexit 1\n')
    failing.chmod(0o755)
    assert " FAILED\n" in set_up(copy, PIVOTRL_PYTHON=str(failing)).stderr
    assert time.monotonic() - started < 20


@pytest.mark.slow
def test_a_failed_step_says_which_why_and_what_to_do(copy):
    done = set_up(copy, PIVOTRL_PYTHON=sys.executable, **NOWHERE)
    assert done.returncode == 1
    assert "step 2 of 7 failed: torch 2.13.0, CPU build" in done.stderr
    assert "| ERROR: No matching distribution found for torch==2.13.0+cpu" in done.stderr
    assert "what to do: is there a connection" in done.stderr
    assert not (copy / ".venv" / "setup.stamp").exists()


def test_the_script_and_the_package_pin_the_same_versions():
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
    script = (REPOSITORY / "tools" / "setup.sh").read_text()
    torch = re.search(r"^torch_version=(\S+)$", script, re.M)
    assert f"torch=={torch[1]}" in project["dependencies"]
    extras = project["optional-dependencies"]
    assert extras["cpu"][0].split("==")[1] == extras["gpu"][0].split("==")[1]  # one vLLM release for both machines
    lines = project["dependencies"] + [line for extra in extras.values() for line in extra]
    named = {re.match(r"[\w-]+", line)[0] for line in lines}
    assert not named & {"apex", "torchvision", "torchaudio", "torchcodec"}


def test_no_tracked_file_names_a_package_registry():
    hosts = ["pypi" + ".org", "python" + "hosted.org", "download.py" + "torch.org", "registry.npm" + "js.org"]
    if not (REPOSITORY / ".git").exists():
        pytest.skip("needs the git checkout, to know which files are tracked")
    pattern = [word for host in hosts for word in ("-e", host)]
    found = subprocess.run(["git", "grep", "-lF", *pattern], cwd=REPOSITORY, capture_output=True, text=True)
    assert found.stdout == ""
