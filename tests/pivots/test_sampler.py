import pytest

from pivotrl.pivots.sampler import PivotSampler
from pivotrl.pivots.store import PivotFile
from pivotrl.trajectories.records import Pivot, Profile, Turn
from pivotrl.trajectories.store import write_jsonl


def pivot(index):
    name = f"t{index}"
    turn = Turn(name, name, 0, 1, [], [], {"type": "message", "content": "x"}, {}, "s", "train")
    return Pivot(turn, Profile(name, [1.0, 0.0], ["a", "b"], 0.5, 0.25, "p", {}), [index], "h")


PIVOTS = [pivot(index) for index in range(11)]


def ids(sampler, steps):
    return [[item.id for item in sampler.batch(step)] for step in steps]


def test_a_batch_is_a_pure_function_of_the_step():
    forward = ids(PivotSampler(PIVOTS, 3, 1), range(12))
    assert ids(PivotSampler(PIVOTS, 3, 1), reversed(range(12))) == forward[::-1]
    assert ids(PivotSampler(PIVOTS, 3, 1), [7])[0] == forward[7]
    assert ids(PivotSampler(PIVOTS, 3, 2), range(12)) != forward


def test_an_epoch_gives_each_pivot_once_and_the_next_is_shuffled_anew():
    sampler = PivotSampler(PIVOTS, 3, 1)
    assert sampler.batches_per_epoch == 3
    first, second = ids(sampler, range(3)), ids(sampler, range(3, 6))
    for epoch in (first, second):
        flat = [name for batch in epoch for name in batch]
        assert len(set(flat)) == len(flat) == 9
    assert first != second


def test_every_pivot_is_seen_over_the_epochs():
    sampler = PivotSampler(PIVOTS, 10, 0)
    assert len({name for batch in ids(sampler, range(40)) for name in batch}) == 11


def test_too_few_pivots_name_the_remedy():
    with pytest.raises(ValueError, match=r"training\.pivots_per_step is 12, but there are 11 pivots"):
        PivotSampler(PIVOTS, 12, 0)


def test_pivots_are_read_from_disk_when_they_are_asked_for(tmp_path):
    write_jsonl(tmp_path / "pivots.jsonl", (item.to_json() for item in PIVOTS))
    found = PivotFile(tmp_path / "pivots.jsonl")
    assert len(found) == 11 and list(found) == PIVOTS and found[-1] == PIVOTS[-1] and found[2:4] == PIVOTS[2:4]
    from_disk = PivotSampler.from_folder(tmp_path, 3, 1)
    assert ids(from_disk, range(9)) == ids(PivotSampler(PIVOTS, 3, 1), range(9))
    with pytest.raises(ValueError, match="no pivots there"):
        PivotSampler.from_folder(tmp_path / "other", 3, 1)
    (tmp_path / "pivots.jsonl").write_text('{"turn": 1}\n')
    with pytest.raises(ValueError, match=r"pivots\.jsonl:1: not a pivot"):
        PivotFile(tmp_path / "pivots.jsonl")[0]


@pytest.mark.parametrize(
    "edit",
    [
        {"prompt_ids": "abc"},
        {"prompt_ids": []},
        {"prompt_ids": [1, -1]},
        {"prompt_ids": [1.0]},
        {"prompt_ids": [True]},
        {"template_hash": 5},
        {"turn": {"expert": {}}},
        {"turn": {"expert": {"type": "function_call", "name": "f", "arguments": "{"}}},
        {"turn": {"messages": None}},
        {"turn": {"verifier": []}},
        {"profile": {"mean": "high"}},
    ],
)
def test_an_edited_pivot_names_its_line(tmp_path, edit):
    rows = [item.to_json() for item in PIVOTS[:2]]
    for key, value in edit.items():
        rows[1][key] = rows[1][key] | value if isinstance(value, dict) else value
    write_jsonl(tmp_path / "pivots.jsonl", rows)
    found = PivotFile(tmp_path / "pivots.jsonl")
    assert found[0] == PIVOTS[0]
    with pytest.raises(ValueError, match=r"pivots\.jsonl:2: not a pivot \(.*; select the pivots anew"):
        found[1]


def test_pivots_of_another_template_are_refused():
    sampler = PivotSampler(PIVOTS, 3, 0)
    sampler.check_template("h")
    with pytest.raises(ValueError, match=r"template h, but model\.path and model\.chat_template give other"):
        sampler.check_template("other")
