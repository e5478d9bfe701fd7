"""From results to verdicts and a page, on results written by hand."""

import json

import pytest

from pivotrl.study.claims import claims
from pivotrl.study.findings import find
from pivotrl.study.page import MARK, write_page
from pivotrl.study.plan import Job
from pivotrl.study.results import Results
from pivotrl.study.work import read_metrics
from tests.study.fakes import CURVES, SIZES, write_all


@pytest.fixture
def results(tmp_path):
    found = Results(tmp_path, SIZES)
    write_all(found)
    return found


def by_number(results):
    found = claims(find(results))
    return {claim.text.split(".")[0]: claim for claim in found}


def test_points_are_changes_against_the_base(results):
    run = find(results).runs["sft"][1]
    assert [(point.step, point.success) for point in run.points] == [(0, 10), (30, 40), (60, 60)]
    assert [round(point.change) for point in run.points] == [0, -10, -40]
    assert [round(point.chance) for point in run.points] == [0, -10, -40]
    assert run.best.log_prob == pytest.approx(-0.4)
    assert run.best.step == 60 and run.rate == 1e-3
    assert run.best.changes == pytest.approx({"add": -40, "sort": -40, "chance": -30})
    assert run.signal_share is None and find(results).runs["pivotrl"][0].signal_share == 0.6


def test_selection_is_charged_where_it_is_needed(results):
    runs = find(results).runs
    assert [point.turns for point in runs["pivotrl"][0].points] == [80, 580, 1080]  # 10 turns x 8 samples, 50 a step
    assert [point.turns for point in runs["random"][0].points] == [0, 500, 1000]
    assert [point.turns for point in runs["thrifty"][0].points] == [30, 280, 530]  # what its profile drew, 25 a step
    assert [point.seconds for point in runs["pivotrl"][0].points] == [4, 6, 8]
    assert [point.turns for point in runs["sft"][0].points] == [0, 0, 0]


def test_claims_by_hand(results):
    found = by_number(results)
    assert {number: claim.verdict for number, claim in found.items()} == dict.fromkeys(
        ("1a", "1b", "1c", "2", "3a", "3b", "4a", "4c"), "shown"
    ) | {"4b": "not shown"}
    assert found["1a"].estimate.mean == pytest.approx(0)
    # At SFT's 60 points both are compared: PivotRL got there without a loss, SFT lost 40 points.
    assert found["1b"].estimate.mean == pytest.approx(40, abs=1)
    assert found["2"].estimate.values == pytest.approx([20, 20, 20])
    # End-to-end RL needs 20 steps of 1000 turns for its 60 points; PivotRL 80 + 500, at its first point.
    assert found["4a"].estimate.values[1] == pytest.approx(20000 / 580)
    assert found["4b"].estimate.values[1] == pytest.approx(4 / 6)
    # At half a batch: 20 steps of 500 turns for 50 points; 30 + 25 x 15, halfway between its two points.
    assert found["4c"].estimate.values[1] == pytest.approx(10000 / 405)


def test_what_does_not_hold_is_said(tmp_path):
    results = Results(tmp_path, SIZES)
    curves = CURVES | {
        "pivotrl": [(0.3, 0.8), (0.5, 0.7)],
        "sft": [(0.5, 0.9), (0.6, 0.9)],
        "end_to_end": [(0.3, 0.9), (0.9, 0.9)],
    }
    write_all(results, curves)
    found = by_number(results)
    assert {number: found[number].verdict for number in ("1a", "1b", "2", "3a", "4a")} == dict.fromkeys(
        ("1a", "1b", "2", "3a", "4a"), "not shown"
    )
    assert "not reached on every seed (seed 1: 49 of 89 points" in found["4a"].figure
    write_page(results, tmp_path / "study.md")
    text = (tmp_path / "study.md").read_text()
    assert "Claim 2 is not shown: 3 of 3 seeds miss its bound." in text


def test_equal_is_not_better(tmp_path):
    results = Results(tmp_path, SIZES)
    write_all(results, CURVES | {"sft": CURVES["pivotrl"], "random": CURVES["pivotrl"]})
    found = by_number(results)
    assert [found[number].verdict for number in ("1a", "1b", "2", "3a")] == ["shown", *["not shown"] * 3]


def test_a_mean_without_certainty_is_called_that(results):
    job = Job("test", "sft", 3, 1e-3)
    lucky = results.read(job)
    lucky["points"][-1]["success"] = "1" * 79 + "0" * 21
    results.write(job, lucky)
    assert by_number(results)["2"].verdict == "in the mean only"


def test_the_point_is_chosen_by_validation_not_by_the_test(results):
    job = Job("test", "pivotrl", 2, 1e-3)
    tested = results.read(job)
    tested["points"][0]["success"] = "1" * 100
    results.write(job, tested)
    assert find(results).runs["pivotrl"][1].best.step == 20


def test_the_page_holds_everything_and_keeps_what_was_written_by_hand(results, tmp_path):
    page = tmp_path / "docs" / "study.md"
    written = write_page(results, page)
    assert [path.name for path in written] == ["study.md", "study.svg"] and all(path.exists() for path in written)
    text = page.read_text()
    for words in (
        "PivotRL",
        "SFT",
        "random turns",
        "strict reward",
        "end-to-end RL",
        "| base |",
        "**shown**",
        "study.svg",
    ):
        assert words in text, words
    assert "--quick" not in text and "the largest of the sweep" in text
    rows = [line for line in text.splitlines() if line.startswith("|")]
    tables = "\n".join(text.splitlines()).split("\n\n")
    for table in (part for part in tables if part.startswith("|")):
        assert len({line.count("|") for line in table.splitlines()}) == 1, table
    assert len(rows) > 30
    page.write_text(text + "\nMy reading: fine.\n")
    write_page(results, page)
    assert page.read_text().endswith(f"{MARK}\n\nMy reading: fine.\n") and page.read_text().count(MARK) == 1


def test_a_page_before_the_end_is_refused(results, tmp_path):
    results.path(Job("test", "sft", 2, 1e-3)).unlink()
    with pytest.raises(ValueError, match=r"not done \(test sft, seed 2, lr 0.001 is next"):
        write_page(results, tmp_path / "page.md")


def test_metrics_are_read_up_to_the_point_and_once(tmp_path):
    rows = [
        {"step": n, "rollout_turns": 10 * (n + 1), "response_tokens": 5, "signal_share": 0.5, "reward": n}
        for n in range(4)
    ]
    path = tmp_path / "metrics.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in [*rows[:3], *rows[1:]]))
    told = read_metrics(path, 3)
    assert told == {"rollout_turns": 30, "sampled_tokens": 15, "signal_share": 0.5, "reward": 2}


def test_a_selection_is_spent_before_the_first_step(results):
    (run, *_) = find(results).runs["pivotrl"]
    assert run.cost_of(5, "turns") == 0, "the base has it"
    # A fifth of the way from the base's 10 points to the first point's 59, which is 10 steps of 50 turns away.
    assert run.cost_of(10 + 49 / 5, "turns") == pytest.approx(80 + 500 / 5)
