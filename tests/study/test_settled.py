"""The second contest: fewer arms, a base that the first contest trained, a page of its own."""

from dataclasses import replace

import pytest

from pivotrl.study import settled
from pivotrl.study.claims import claims
from pivotrl.study.findings import find
from pivotrl.study.page import write_page
from pivotrl.study.plan import SETTLED, Job, jobs, sizes_of
from pivotrl.study.results import Results
from tests.study.fakes import SIZES, write_all


def test_it_has_only_what_its_arms_need():
    known = set(jobs(SETTLED, dict.fromkeys(SETTLED.arms, 1e-4)))
    assert {job.name for job in known if job.stage == "select"} == {"functional", "random", "mixed"}
    assert {job.name for job in known if job.stage == "train"} == {"pivotrl", "random", "mixed"}
    assert sizes_of(quick=False, settled=True) is SETTLED


def test_its_page_tells_the_base_and_leaves_out_what_it_has_not(tmp_path, monkeypatch):
    sizes = replace(SIZES, arms=SETTLED.arms)
    monkeypatch.setattr("pivotrl.study.settled.SETTLED", sizes)
    results = Results(tmp_path / "runs", sizes)
    write_all(results)
    assert [claim.text.split(".")[0] for claim in claims(find(results))] == ["1a", "3a"]
    write_page(results, tmp_path / "study_settled.md")
    text = (tmp_path / "study_settled.md").read_text()
    assert "continued" in text and "after step 50" in text and "the first 120 are" in text
    assert "Rollout turns to the same success" not in text


def test_the_base_is_the_middle_of_the_best_run(tmp_path, monkeypatch):
    asked = []

    def to_hf(checkpoint, out, size):
        asked.append(checkpoint)
        out.mkdir()

    monkeypatch.setattr("pivotrl.policy.convert.to_hf", to_hf)
    monkeypatch.setattr(settled, "first_sizes", lambda sizes: SIZES)
    results = Results(tmp_path / "first", SIZES)
    with pytest.raises(ValueError, match="sweep is not done"):
        settled.export_base(tmp_path / "first", SETTLED, tmp_path / "base")
    write_all(results)
    checkpoint = tmp_path / "first" / Job("train", "pivotrl", 1, 1e-3).folder / "checkpoints" / "step_000020"
    checkpoint.mkdir(parents=True)
    (checkpoint / "checksums.json").write_text('{"files": {"a": 1}}')
    for _ in range(2):
        settled.export_base(tmp_path / "first", SETTLED, tmp_path / "base")
        assert asked == [checkpoint], "made once"
    (checkpoint / "checksums.json").write_text('{"files": {"a": 2}}')
    with pytest.raises(ValueError, match="another checkpoint than"):
        settled.export_base(tmp_path / "first", SETTLED, tmp_path / "base")
