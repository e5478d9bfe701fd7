"""pool.jsonl: with the pivots, every usable turn of the training split once."""

import pytest

from pivotrl.pivots.pool import Pool, write_pool
from pivotrl.pivots.score import Scorer
from pivotrl.pivots.selection import select_pivots
from pivotrl.trajectories.records import Turn
from pivotrl.trajectories.store import read_jsonl
from pivotrl.trajectories.turns import TurnReader
from tests.pivots.fakes import FakeEngine, FakeParser, FakeTemplate, run_config
from tests.trajectories.rows import chat_row, write_rows


def test_pivots_and_pool_are_all_turns(tmp_path) -> None:
    long = chat_row("long")
    long["messages"][1]["content"] = "x" * 2000
    file = write_rows(tmp_path / "a.jsonl", [*(chat_row(f"t{index}") for index in range(30)), long])
    config, template, folder = run_config([file], pivots={"limit": 40}), FakeTemplate(), tmp_path / "out"
    select_pivots(config, FakeEngine(), FakeParser(), template, folder)
    scorer = Scorer(config.verifier, FakeParser(), template)
    write_pool(config, folder, scorer, template)
    pool = Pool(folder)
    turns = [turn.id for turn in TurnReader(config.trajectories, config.seed) if isinstance(turn, Turn)]
    train = [turn.id for turn in TurnReader(config.trajectories, config.seed) if turn.split == "train"]
    assert len(train) < len(turns), "some are held out"
    assert sorted(item.id for item in pool) == sorted(name for name in train if "long" not in name)
    profiles = {row["id"]: row["rewards"] for _, row in read_jsonl(folder / "profile.jsonl")}
    assert all(item.profile.rewards == profiles.get(item.id, []) for item in pool)
    assert any(not item.profile.rewards for item in pool), "pivots.limit left some unprofiled"
    assert pool.pivots == sum(1 for _ in read_jsonl(folder / "pivots.jsonl")) < len(pool)
    assert all(item.prompt_ids == template.encode(item.turn.messages, item.turn.tools) for item in pool)

    written = (folder / "pool.jsonl").stat().st_mtime_ns
    write_pool(config, folder, scorer, template)
    assert (folder / "pool.jsonl").stat().st_mtime_ns == written, "it is there already"
    file_of = folder / "profile.jsonl"
    was = file_of.read_text()
    file_of.write_text(was.replace("fake-model", "felt-model"))  # as many bytes
    write_pool(config, folder, scorer, template)
    assert "felt-model" in (folder / "pool.jsonl").read_text(), "of another selection, it is written anew"
    written = (folder / "pool.jsonl").stat().st_mtime_ns
    others = run_config([file], pivots={"limit": 40}, trajectories={"row_verifiers": False})
    write_pool(others, folder, scorer, template)
    assert (folder / "pool.jsonl").stat().st_mtime_ns != written, "of other trajectories, too"
    other = run_config([write_rows(tmp_path / "b.jsonl", [chat_row("t0")])])
    (folder / "pool.json").unlink()
    with pytest.raises(ValueError, match=r"is not in trajectories\.files; give the files"):
        write_pool(other, folder, scorer, template)
