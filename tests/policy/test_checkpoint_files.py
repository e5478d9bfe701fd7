"""What a checkpoint is blamed for, and what it may make this process do."""

from pathlib import Path

import pytest
import torch.distributed as dist
from megatron.core import dist_checkpointing

from pivotrl.policy import checkpoint_files


@pytest.mark.parametrize(
    ("error", "blamed"),
    [
        (RuntimeError("[gloo/transport/tcp/pair.cc:553] Connection closed by peer [127.0.0.1]:53379."), False),
        (dist.DistNetworkError("reset by peer"), False),
        (RuntimeError("PytorchStreamReader failed reading zip archive"), True),
    ],
)
def test_the_end_of_another_rank_is_not_a_damaged_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: RuntimeError, blamed: bool
) -> None:
    def load(*_: object) -> None:
        raise error

    monkeypatch.setattr(checkpoint_files, "check_complete", lambda folder: None)
    monkeypatch.setattr(dist_checkpointing, "load", load)
    with pytest.raises(ValueError if blamed else type(error), match="is damaged: Pytorch" if blamed else "peer"):
        checkpoint_files.load({}, tmp_path, verified=True)
