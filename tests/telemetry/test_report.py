import html.parser
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from pivotrl.telemetry.curves import CURVES
from pivotrl.telemetry.page import escape, number
from pivotrl.telemetry.report import write_report
from tests.telemetry.fake_run import HOSTILE, make_run

REPOSITORY = Path(__file__).resolve().parents[2]
VOID = {"meta", "br", "rect", "line", "circle", "path", "polygon"}


class Checker(html.parser.HTMLParser):
    """Collects tags, attributes and text, and fails on a tag that is closed out of turn."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.tags: set[str] = set()
        self.attributes: list[tuple[str, str | None]] = []
        self.words: list[str] = []

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        self.attributes += attrs
        if tag not in VOID or (tag in {"rect", "polygon", "circle"} and not self.get_starttag_text().endswith("/>")):
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.add(tag)
        self.attributes += attrs

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.words.append(data)


def parse(path: Path) -> Checker:
    checker = Checker()
    checker.feed(path.read_text(encoding="utf-8"))
    assert checker.open == []
    return checker


@pytest.fixture
def run(tmp_path) -> Path:
    return make_run(tmp_path / "demo")


def test_page_stands_alone_and_runs_nothing(run):
    page = parse(write_report(run))
    assert not page.tags & {"script", "img", "link", "iframe", "object", "embed", "form", "base", "a", "use", "image"}
    assert not [name for name, _ in page.attributes if name in {"src", "href", "action"} or name.startswith("on")]
    text = (run / "report.html").read_text()
    assert "default-src 'none'" in text
    assert not re.search(r"https?://|url\(|@import", text)


def test_what_a_model_wrote_is_shown_and_nothing_else(run):
    config = run / "config.yaml"
    config.write_text(config.read_text() + f"note: {HOSTILE!a}</pre><script>\n")
    (run / "pivots/summary.json").write_text(
        json.dumps({"candidates": 1, "per_tool": {'"><script>x': {"candidates": 1, "mixed": 1}}})
    )
    page = parse(write_report(run))
    text = "".join(page.words)
    assert "script" not in page.tags
    assert "</pre><script>alert(1)</script><img src=x onerror=alert(2)> \\u202e \\u001b[31m \\ud800" in text
    assert '"><script>x' in text


def test_headline_says_the_difference_in_points(run):
    text = " ".join("".join(parse(write_report(run)).words).split())
    assert "42.3" in text and "79.1 %" in text and "+36.8" in text
    assert "3.1 %" in text and "35.2 %" in text and "+32.1" in text
    assert "turns per taskturns that the policy took in a whole task, on average5.915.24" in text
    assert "mixed shareheld-out turns where some of the policy's samples earn more than others" in text
    assert "violationswhole tasks in which the policy broke a rule" in text and "lower is better0.410.05" in text
    assert "hidden" not in text  # the parts of summary.json that have sections of their own
    assert "-6.0" in text  # the family that suffered is shown by itself
    assert "Measured on 212 turns, 128 tasks, 100 questions per family." in text
    assert "447 of them (82.2 %) had mixed results; 402 were kept as pivots (mean reward below 0.9)" in text


def test_the_cost_is_that_of_selection_and_training_together(run):
    def rows() -> str:
        words = [" ".join(word.split()) for word in parse(write_report(run)).words]
        return "|".join(words[words.index("What it cost") :])

    steps = 60
    assert "|selection|4,352|76,543|41 s|0.0229|training|7,680|134,400|3:35 min|0.12|in all|" in rows()
    total = f"in all|{4352 + 128 * steps:,}|{76543 + 2240 * steps:,}|4:17 min|0.143|"
    assert total in rows()
    metrics = run / "metrics.jsonl"
    whole = metrics.read_text()
    metrics.write_text(whole.replace('"ranks": 2, ', "").replace(', "ranks": 2', ""))
    assert "|3:35 min|in all|12,032|210,943|4:17 min|" in rows()
    assert total not in rows(), "what one stage did not record has no total"
    (run / "pivots/summary.json").unlink()
    assert "in all" not in rows()


def test_every_metric_of_a_step_has_its_value_in_a_chart(run):
    text = "".join(parse(write_report(run)).words)
    row = json.loads((run / "metrics.jsonl").read_text().splitlines()[41])
    for name in (name for curve in CURVES for name in curve.metrics if name in row):
        assert f"{name}, step 42: {number(row[name])}" in text
    for phase in ("rollout", "verify", "train", "refit", "save", "other"):
        assert phase in text


def test_reasons_have_their_shares_their_rewards_and_what_became_of_them(run):
    page = parse(write_report(run))
    words = [" ".join(word.split()) for word in page.words]
    text = "|".join(words)
    assert "Rewards by reason" in text and "is a hole in the verifier" in text
    rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    edges = [sum(row["reason.other_value"] for row in part) / 6 for part in (rows[:6], rows[-6:])]
    change = f"{100 * (edges[1] - edges[0]):+.1f}"
    assert f"other_value|0|{100 * edges[0]:.1f} %|{100 * edges[1]:.1f} %|{change}" in text
    assert "number_of_calls|0.5|12.0 %|12.0 %|+0.0" in text
    chart = words[words.index("Shares over the steps") : words.index("reason")]
    assert "others" in chart and "call_matches" in chart and "format" not in chart, "the sixth and seventh together"
    assert "By reason of the verdict|" in text and "other_value|2,568|59.0 %|0" in text


def test_a_run_without_reasons_has_no_such_section(run):
    rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    rows = [{key: value for key, value in row.items() if not key.startswith("reason.")} for row in rows]
    (run / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (run / "pivots/summary.json").write_text(json.dumps({"candidates": 3, "mixed": 1, "reasons": ["odd"]}))
    text = "".join(parse(write_report(run)).words)
    assert "Rewards by reason" not in text and "By reason of the verdict" not in text


@pytest.mark.parametrize(
    "name", ["summary.json", "metrics.jsonl", "pivots/summary.json", "evaluation.json", "examples.json", "config.yaml"]
)
@pytest.mark.parametrize("damage", ["missing", "broken", "wrong type", "empty"])
def test_a_file_that_is_missing_or_broken_is_said(run, name, damage):
    broken = {"missing": None, "broken": b'{"a": [\n{', "wrong type": b'"text"\n', "empty": b""}[damage]
    if broken is None:
        (run / name).unlink()
    else:
        (run / name).write_bytes(broken)
    text = "".join(parse(write_report(run)).words)
    if name == "config.yaml" and damage != "missing":
        return  # any text is shown
    if name == "metrics.jsonl" and damage == "empty":
        return  # no step yet
    assert f"{name} " in text.split("Not in this report.")[1]
    assert text.count("Not in this report.") == 1


def test_a_run_that_has_just_begun(tmp_path):
    (tmp_path / "metrics.jsonl").write_text('{"step": 0, "reward": 0.5, "kl": null}\n{"step": 1, "rew')
    text = "".join(parse(write_report(tmp_path)).words)
    assert "1 step of training" in text
    assert "KL to the reference" not in text


def test_a_long_run_stays_a_small_file(tmp_path):
    assert write_report(make_run(tmp_path / "long", steps=5000)).stat().st_size < 800_000


def test_report_command(run, tmp_path):
    command = [sys.executable, "tools/report.py"]
    options = {"cwd": REPOSITORY, "capture_output": True, "text": True, "env": {}}
    done = subprocess.run([*command, str(run), "--out", str(tmp_path / "r.html")], check=True, **options)
    assert done.stdout.strip() == str(tmp_path / "r.html")
    parse(tmp_path / "r.html")
    failed = subprocess.run([*command, str(tmp_path / "nowhere")], **options)
    assert failed.returncode == 2
    assert "no such folder" in failed.stderr and "Traceback" not in failed.stderr


def test_escape_spells_out_what_would_hide():
    assert escape('<a href="x">&\'') == "&lt;a href=&quot;x&quot;&gt;&amp;&#x27;"
    assert escape("a\u202eb\u200bc\x00\x7f\ud800") == "a\\u202eb\\u200bc\\u0000\\u007f\\ud800"
    assert escape("caf\u00e9 \u4e2d\n\t") == "caf\u00e9 \u4e2d\n\t"
