"""The page and the command, on a selection that `select_pivots` wrote and on hostile ones."""

import json
import random
import re
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from pivotrl.pivots.analysis.analyse import write_analysis
from pivotrl.pivots.analysis.folder import open_selection
from pivotrl.pivots.select import is_pivot
from pivotrl.pivots.selection import select_pivots
from pivotrl.trajectories.records import Profile
from pivotrl.trajectories.store import read_jsonl
from tests.pivots.analysis.made import make_selection, trajectory
from tests.pivots.fakes import FakeEngine, FakeParser, FakeTemplate, run_config
from tests.telemetry.fake_run import HOSTILE
from tests.telemetry.test_report import parse
from tests.trajectories.rows import chat_row, write_rows

REPOSITORY = Path(__file__).resolve().parents[3]
COMMAND = [sys.executable, str(REPOSITORY / "tools" / "select_pivots.py"), "report"]


def command(*arguments, cwd=REPOSITORY):
    return subprocess.run([*COMMAND, *map(str, arguments)], cwd=cwd, capture_output=True, text=True, timeout=300)


@pytest.fixture(scope="module")
def selected(tmp_path_factory):
    """A real selection's folder, of a fake engine."""
    folder = tmp_path_factory.mktemp("selected")
    long = chat_row("long")
    long["messages"][1]["content"] = "x" * 2000
    file = write_rows(folder / "a.jsonl", [*(chat_row(f"t{index}") for index in range(40)), long])
    select_pivots(run_config([file]), FakeEngine(), FakeParser(), FakeTemplate(), folder / "pivots")
    return folder


def test_the_figures_are_those_of_the_profiles(selected):
    found, path = write_analysis(open_selection(selected))
    profiles = [Profile.from_json(row) for _, row in read_jsonl(selected / "pivots" / "profile.jsonl")]
    summary = json.loads((selected / "pivots" / "summary.json").read_text())
    assert path == selected / "pivots" / "analysis.html" and found["groups"]["all"]["turns"] == len(profiles)
    assert found["groups"]["all"]["pivots"] == summary["pivots"] == sum(is_pivot(one, 0.6) for one in profiles)
    means = [one.mean for one in profiles]
    mean = sum(means) / len(means)
    assert found["groups"]["all"]["mean"] == pytest.approx(mean)
    assert found["groups"]["all"]["between"] == pytest.approx(sum((one - mean) ** 2 for one in means) / len(means))
    within = sum(one.variance * 4 / 3 for one in profiles) / len(profiles)
    assert found["groups"]["all"]["within"] == pytest.approx(within)
    for name, one in found["groups"]["by_tool"].items():
        assert (
            one["turns"] == summary["per_tool"][name]["candidates"]
            and one["mixed"] == summary["per_tool"][name]["mixed"]
        )
    for name, one in found["groups"]["by_reason"].items():
        assert one["samples"] == summary["reasons"][name]["samples"]
        assert one["mean"] == pytest.approx(summary["reasons"][name]["mean_reward"])
    assert found["groups"]["by_trajectory"]["trajectories"] == len({one.id.rsplit("/", 1)[0] for one in profiles})
    assert sum(found["groups"]["by_trajectory"]["means_in_tenths"]) == found["groups"]["by_trajectory"]["trajectories"]
    assert found["lengths"]["dropped"] == summary["rejected"]["prompt_too_long"] > 0
    assert sum(one["turns"] for one in found["classes"].values()) == len(profiles)
    assert found["leakage"]["equal"] == found["leakage"]["heldout"] > 0, "all trajectories are equal here"


def test_the_page_stands_alone_and_its_charts_are_whole(selected):
    page = parse(write_analysis(open_selection(selected))[1])
    assert not page.tags & {"script", "img", "link", "iframe", "a", "image"}
    text = (selected / "pivots" / "analysis.html").read_text()
    assert "default-src 'none'" in text and not re.search(r"https?://|url\(|nan|inf\b", text)
    pictures = re.findall(r"<svg.*?</svg>", text, re.S)
    assert len(pictures) >= 6
    for picture in pictures:
        root = ElementTree.fromstring(picture)
        for shape in root.iter():
            for key in ("width", "height"):
                assert not str(shape.get(key, "")).startswith("-"), "a negative size is not drawn"
    words = "".join(page.words)
    for said in ("Signal to expect", "Pivots by lambda", "Duplicates", "Leakage", "Lengths", "Turns to read"):
        assert said in words


def test_hostile_text_is_shown_and_nothing_else(tmp_path):
    rng, hostile = random.Random(0), HOSTILE.removesuffix("\ud800")  # readers reject half a character
    rows = [trajectory(f"t{index}{hostile}", hostile, ["get"], hostile) for index in range(6)]
    selection = make_selection(tmp_path, rows, lambda turn: [float(rng.random() < 0.5) for _ in range(8)], 0.3)
    path = selection.folder / "profile.jsonl"
    path.write_text(path.read_text().replace("other_value", '\\"><script>'))
    (selection.folder / "summary.json").write_text(
        json.dumps({"max_mean": 0.6, "samples": HOSTILE, "profiling": HOSTILE})
    )
    page = parse(write_analysis(open_selection(tmp_path))[1])
    text = "".join(page.words)
    assert "script" not in page.tags and "<script>alert(1)</script><img src=x onerror=alert(2)>" in text
    assert '"><script>' in text and "\\u202e" in text and "\u202e" not in text


def test_profiles_of_any_length(tmp_path):
    rng = random.Random(2)
    rows = [trajectory(f"t{index}", f"words {index}", ["get", "put"]) for index in range(30)]
    found, path = write_analysis(
        make_selection(tmp_path, rows, lambda turn: [float(rng.random() < 0.4) for _ in range(rng.choice([2, 5, 16]))])
    )
    parse(path)
    assert found["sweeps"]["common_samples"] == 2 and found["sweeps"]["turns"] == 90
    assert found["groups"]["by_depth"]["2"]["turns"] == 30 and found["leakage"] == {}


def test_the_command(selected, tmp_path):
    done = command(selected, "--out", tmp_path / "a.html", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "predicted share of groups with a signal" in done.stdout and str(tmp_path / "a.html") in done.stdout
    parse(tmp_path / "a.html")
    done = command(selected, "--json")
    assert done.returncode == 0 and json.loads(done.stdout)["sweeps"]["turns"] > 0
    helped = subprocess.run([*COMMAND[:2], "--help"], cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert "report FOLDER" in helped.stdout


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (
            lambda folder: (folder / "pivots/profile.jsonl").unlink(),
            "profile.jsonl: no such file; give the folder of a",
        ),
        (lambda folder: (folder / "t.jsonl").unlink(), "t.jsonl: the selection in .* was made from this file"),
        (lambda folder: (folder / "pivots/progress/header.json").write_text("{}"), "not a selection's folder .*'seed'"),
        (lambda folder: (folder / "pivots/profile.jsonl").write_text('{"id": 1}\n'), "profile.jsonl:1: not a profile"),
        (lambda folder: (folder / "pivots/profile.jsonl").write_text(""), "no turn was profiled"),
        (lambda folder: write_rows(folder / "t.jsonl", [trajectory("u", "x", [])]), "'t:t0/0' is not the trajectories"),
    ],
)
def test_what_does_not_belong_together_is_one_line(tmp_path, change, says):
    make_selection(tmp_path, [trajectory("t0", "x", ["get"]), trajectory("t1", "y", [])], lambda turn: [0.0, 1.0])
    change(tmp_path)
    with pytest.raises(ValueError, match=says) as caught:
        write_analysis(open_selection(tmp_path))
    assert "\n" not in str(caught.value)


def test_files_may_have_moved(tmp_path):
    make_selection(tmp_path, [trajectory("t0", "x", ["get"])], lambda turn: [0.0, 1.0])
    (tmp_path / "away").mkdir()
    moved = (tmp_path / "t.jsonl").rename(tmp_path / "away" / "t.jsonl")
    assert write_analysis(open_selection(tmp_path, [str(moved)]))[0]["sweeps"]["turns"] == 2
