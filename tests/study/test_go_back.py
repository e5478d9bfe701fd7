"""A stretch of a study's training that did not come to its end is trained again, so that its cost is known."""

import pytest

from pivotrl.study.work import go_back


@pytest.mark.parametrize(("step", "left", "latest"), [(10, ["step_000010"], "step_000010"), (0, [], None)])
def test_later_checkpoints_are_forgotten(tmp_path, step, left, latest):
    for name in ("step_000010", "step_000017", "step_000025.partial"):
        (tmp_path / name).mkdir()
    (tmp_path / "latest").write_text("step_000017")
    go_back(tmp_path, step)
    assert sorted(path.name for path in tmp_path.glob("step_*")) == left
    marker = tmp_path / "latest"
    assert (marker.read_text() if marker.exists() else None) == latest


def test_a_run_that_has_not_begun_stays_so(tmp_path):
    go_back(tmp_path / "none", 0)
    assert not (tmp_path / "none").exists()
