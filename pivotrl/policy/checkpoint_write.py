"""Writing a `torch_dist` checkpoint in three parts, of which the middle one may run in a thread of its own.

1. `Writing(...)` (collective): Megatron plans which rank writes what; where training goes on meanwhile, the values are
   copied to host memory.
2. `write` (alone, no collective, any thread): this rank's files, hashed, made durable and read back. A thread ends with
   its process, so a killed run leaves no writer behind.
3. `finish` (collective): the table of contents and `checksums.json`; nothing of the folder counts before.

Megatron's own `dist_checkpointing.save` forks a process for each file and keeps another one for their results, which
takes seconds, survives a killed rank, and stops all other ranks where rank 0 cannot write.
"""

import io
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from pivotrl.policy import checkpoint_checksums, device
from pivotrl.policy.agree import on_first, together
from pivotrl.policy.checkpoint_checksums import Entry

if TYPE_CHECKING:
    from pivotrl.policy.parallel import World

_FILES_PER_RANK = 2


class Writing:
    """One checkpoint on its way to an existing, empty folder."""

    def __init__(self, state: dict[str, Any], folder: Path, world: "World", copy: bool) -> None:
        """Plan it (collective).

        Args:
            state: nested `ShardedTensor`s and factories of them (and nothing else), of which each box is whole on
                exactly one rank's main replica.
            copy: take the values now, so that they may change before `write` is done.
        """
        from megatron.core.dist_checkpointing.state_dict_utils import save_preprocess
        from megatron.core.dist_checkpointing.strategies import filesystem_async
        from megatron.core.dist_checkpointing.strategies.torch import TorchDistSaveShardedStrategy

        self._folder, self._world = folder, world
        self._results: list[Any] = []
        self._entries: dict[str, Entry] = {}
        # Megatron starts a process to hold this queue where there is none; nothing is ever put into ours.
        theirs, filesystem_async._results_queue = filesystem_async._results_queue, ()
        strategy = TorchDistSaveShardedStrategy("torch_dist", 1, thread_count=_FILES_PER_RANK)
        # It hands out functions that write and finish in Megatron's way; the plan is all that is wanted.
        strategy._get_save_and_finalize_callbacks = lambda writer, planned: (writer, planned[1])
        with device.scope():
            sharded, self._common = save_preprocess(state)
            self._writer, self._contents = strategy.async_save(sharded, folder)
        filesystem_async._results_queue = theirs
        self._buckets = [
            (Path(path), key, blobs, [(item, _on_host(tensor, copy)) for item, tensor in tensors])
            for path, key, (blobs, tensors) in self._writer.write_buckets
        ]

    def write(self, files: dict[str, bytes]) -> None:
        """Write this rank's part, and `files` besides (name -> content).

        Raises:
            OSError: a file cannot be written.
            DamagedCheckpoint: what is read back is not what was written.
        """
        for name, data in files.items():
            self._entries[name] = checkpoint_checksums.write(self._folder / name, data)
        if self._world.rank == 0:
            common = io.BytesIO()
            torch.save(self._common, common)
            self._entries["common.pt"] = checkpoint_checksums.write(self._folder / "common.pt", common.getvalue())
        with ThreadPoolExecutor(_FILES_PER_RANK) as pool:
            for key, results, entry in pool.map(self._write_bucket, self._buckets):
                self._results += results
                self._entries[key] = entry
        self._buckets = []

    def finish(self, files: dict[str, bytes]) -> None:
        """Complete the folder once `write` is done on this rank (collective).

        Args:
            files: what rank 0 writes besides.

        Raises:
            ValueError: on every rank: rank 0 cannot write.
        """
        from megatron.core.dist_checkpointing.core import CheckpointingConfig, save_config

        everyone = together(self._world.object_group, lambda: (self._results, self._entries))

        def complete() -> None:
            entries = {name: entry for _, part in everyone for name, entry in part.items()}
            for name, data in files.items():
                entries[name] = checkpoint_checksums.write(self._folder / name, data)
            if hasattr(self._contents, "all_local_plans"):
                del self._contents.all_local_plans  # only Megatron's cache of plans would use them
            self._writer.finish(self._contents, [results for results, _ in everyone])
            save_config(CheckpointingConfig("torch_dist", 1), str(self._folder))
            for name in (".metadata", "metadata.json"):
                entries[name] = checkpoint_checksums.settle(self._folder / name)
            checkpoint_checksums.write_manifest(self._folder, entries)

        on_first(self._world, complete)

    def _write_bucket(self, bucket: tuple[Path, str, list, list]) -> tuple[str, list[Any], Entry]:
        from torch.distributed.checkpoint.filesystem import SerializationFormat, _StorageWriterTransforms, _write_item

        path, key, blobs, tensors = bucket
        file = checkpoint_checksums.HashedFile(path)
        transforms = _StorageWriterTransforms()
        try:
            results = [
                _write_item(transforms, file, data, item, key, SerializationFormat.TORCH_SAVE)
                for item, data in [*blobs, *tensors]
            ]
        except RuntimeError:
            if file.error is None:
                raise
            raise file.error from None
        return key, results, file.settle()


class Pending:
    """A checkpoint whose files a thread of this rank is writing. The thread calls no collective."""

    def __init__(self, writing: Writing, partial: Path, mine: dict[str, bytes], files: dict[str, bytes]) -> None:
        self.writing, self.partial, self.files = writing, partial, files
        self._error: BaseException | None = None

        def write() -> None:
            try:
                writing.write(mine)
            except BaseException as error:  # whatever it is, `wait` raises it in the thread that trains
                self._error = error

        self.thread = threading.Thread(target=write, name=f"write {partial.name}")
        self.thread.start()

    def wait(self) -> None:
        """Wait for the thread, and raise what it raised."""
        self.thread.join()
        if self._error is not None:
            raise self._error


def save(state: dict[str, Any], folder: Path, world: "World") -> None:
    """Write a whole checkpoint of `state` into an existing, empty folder (collective).

    Raises:
        ValueError: a file cannot be written; it is named.
    """
    writing = Writing(state, folder, world, copy=False)
    together(world.object_group, lambda: writing.write({}))
    writing.finish({})


def _on_host(tensor: torch.Tensor, copy: bool) -> torch.Tensor:
    if tensor.device.type != "cpu":
        return tensor.cpu()
    return tensor.clone() if copy else tensor
