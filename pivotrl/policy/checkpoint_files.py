"""Reading Megatron's `torch_dist` checkpoints, with one clear line where one is missing or broken."""

from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from pivotrl.json_object import JsonObject
from pivotrl.policy import checkpoint_checksums
from pivotrl.policy.agree import on_first
from pivotrl.policy.checkpoint_contents import read_contents

WHAT = "give the folder of one checkpoint, such as checkpoints/step_000100"


def check_complete(folder: str | Path) -> Any:
    """Read a checkpoint's table of contents and see that every file in it is there.

    Returns:
        torch.distributed.checkpoint's Metadata.

    Raises:
        ValueError: the folder is no checkpoint, or a file is missing or damaged (it is named).
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise ValueError(f"{folder}: no such folder; {WHAT}")
    for name in (".metadata", "common.pt", "metadata.json"):
        if not (folder / name).is_file():
            raise ValueError(f"{folder / name}: no such file; put it back, or {WHAT}")
    metadata = read_contents(folder / ".metadata")
    files = {info.relative_path for info in metadata.storage_data.values()}
    _check_small_files(folder)
    for name in sorted(files):
        if not (folder / name).is_file():
            raise ValueError(f"{folder / name}: no such file, but the checkpoint needs it; put it back or take another")
    return metadata


def _check_small_files(folder: Path) -> None:
    """Read what Megatron reads without catching: the settings and the state that is not sharded."""
    from megatron.core.dist_checkpointing.core import CheckpointingConfig

    settings = JsonObject(folder / "metadata.json")
    try:
        CheckpointingConfig(**settings.values)
    except TypeError as error:
        raise ValueError(f"{settings.file}: not the settings of a checkpoint ({error})") from None
    common = folder / "common.pt"
    try:
        state = torch.load(common, map_location="cpu")
    except Exception as error:  # torch unpickles the file, which can raise anything
        reason = " ".join(str(error).split())
        raise ValueError(f"{common}: not a state of a checkpoint ({type(error).__name__}: {reason:.200})") from error
    if not isinstance(state, dict):
        raise ValueError(f"{common}: not a state of a checkpoint, but {type(state).__name__}")


def verify(folder: str | Path) -> None:
    """Read every file of a checkpoint and compare it with `checksums.json`, the ranks sharing the work (collective).

    A checkpoint without that file, which another program wrote, is not refused: rank 0 says that it is not verified.

    Raises:
        DamagedCheckpoint: a file is missing or is not what was written; it is named.
    """
    from pivotrl.policy.parallel import current_world

    world, folder = current_world(), Path(folder)
    if on_first(world, lambda: (folder / checkpoint_checksums.MANIFEST).exists()):
        checkpoint_checksums.verify(folder, world.object_group)
    elif world.rank == 0:
        print(f"{folder}: it has no {checkpoint_checksums.MANIFEST}, so its files are not verified", flush=True)


def load(sharded_state: dict[str, Any], folder: str | Path, verified: bool = False) -> dict[str, Any]:
    """Read what `sharded_state` describes (collective).

    Args:
        sharded_state: nested `ShardedTensor`s; those that have memory are filled in place.
        folder: of the checkpoint.
        verified: its checksums have been compared just now.

    Raises:
        ValueError: the checkpoint is missing, incomplete, damaged, or holds something else.
    """
    from megatron.core import dist_checkpointing
    from megatron.core.dist_checkpointing.core import CheckpointingException
    from torch.distributed.checkpoint.api import CheckpointException

    from pivotrl.policy import device

    check_complete(folder)
    if not verified:
        verify(folder)
    # torch's CheckpointException is not an Exception.
    wrong = (CheckpointingException, CheckpointException, OSError, RuntimeError, KeyError, ValueError, EOFError)
    with device.scope():
        try:
            return dist_checkpointing.load(sharded_state, str(folder))
        except wrong as error:
            if isinstance(error, dist.DistError) or "gloo/transport" in str(error):  # torch has no type for gloo's
                raise  # another rank has ended, which says nothing about the checkpoint
            last_line = str(error).strip().rsplit("\n", 1)[-1][:400]
            raise ValueError(f"{folder}: the checkpoint does not fit this model or is damaged: {last_line}") from error


def weights_dtype(folder: str | Path) -> torch.dtype:
    """Type of the embedding in a checkpoint.

    Raises:
        ValueError: the folder is no checkpoint of a policy.
    """
    entries = check_complete(folder).state_dict_metadata
    name = "embedding.word_embeddings.weight"
    if name not in entries:
        raise ValueError(f"{folder}: a checkpoint, but not of a policy: it holds no {name}")
    return entries[name].properties.dtype
