"""What a checkpoint is blamed for, and what it may make this process do."""

import os
import pickle
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from megatron.core import dist_checkpointing
from torch.distributed.checkpoint.filesystem import _StorageInfo
from torch.distributed.checkpoint.metadata import (
    ChunkStorageMetadata,
    Metadata,
    MetadataIndex,
    TensorProperties,
    TensorStorageMetadata,
)

from pivotrl.policy import checkpoint_files
from pivotrl.policy.checkpoint_contents import read_contents


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


def contents(shard: str) -> Metadata:
    chunk = ChunkStorageMetadata(torch.Size([0]), torch.Size([3]))
    tensor = TensorStorageMetadata(TensorProperties(dtype=torch.bfloat16), torch.Size([3]), [chunk])
    return Metadata({"w": tensor}, storage_data={MetadataIndex("w", torch.Size([0])): _StorageInfo(shard, 0, 6)})


class Runs:
    """Unpickled, it makes a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __reduce__(self) -> tuple:
        return os.mkdir, (str(self.folder),)


def test_a_table_of_contents_runs_nothing_and_names_files_beside_it_only(tmp_path: Path) -> None:
    path, made = tmp_path / ".metadata", tmp_path / "made"
    path.write_bytes(pickle.dumps(contents("__0_0.distcp")))
    assert read_contents(path) == contents("__0_0.distcp")
    inside = f"ctorch.distributed.checkpoint.filesystem\nos.mkdir\n(V{made}\ntR.".encode()
    for data in (
        pickle.dumps(Runs(made)),
        inside,
        b"ctorch\nload\n.",
        b"cpathlib\nos\n.",
        b"ctorch.serialization\nload\n.",
    ):
        path.write_bytes(data)
        with pytest.raises(ValueError, match=r"\.metadata: not a table of contents .* has no place in one"):
            read_contents(path)
    assert not made.exists()
    path.write_bytes(pickle.dumps(contents("../../other/__0_0.distcp")))
    with pytest.raises(ValueError, match=r"\.metadata: it names '../../other/__0_0.distcp', which is not a file"):
        read_contents(path)
