"""An error of one rank is raised on all of them, in one kind and with one text."""

import json

import pytest
import torch.distributed as dist

from pivotrl.policy import agree
from pivotrl.policy.checkpoint_checksums import DamagedCheckpoint


def raised(monkeypatch: pytest.MonkeyPatch, everyone: list) -> BaseException:
    """What this rank raises after the others' results and errors have come in."""

    def gather(into: list, mine: object, group: object) -> None:
        into[:] = [mine, *everyone]

    monkeypatch.setattr(dist, "get_world_size", lambda group: 1 + len(everyone))
    monkeypatch.setattr(dist, "all_gather_object", gather)
    with pytest.raises(ValueError) as caught:
        agree.together(None, lambda: 1)
    return caught.value


def test_the_first_rank_that_failed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    error = raised(monkeypatch, [(2, None), (None, DamagedCheckpoint("a shard")), (None, ValueError("later"))])
    assert type(error) is DamagedCheckpoint and str(error) == "a shard (rank 2)"


def test_errors_that_take_more_than_a_text(monkeypatch: pytest.MonkeyPatch) -> None:
    try:
        json.loads("{")
    except ValueError as wrong:
        error = raised(monkeypatch, [(None, wrong)])
    assert type(error) is ValueError and str(error).endswith("(rank 1)")
