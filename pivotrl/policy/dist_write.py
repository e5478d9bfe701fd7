"""A Megatron `torch_dist` checkpoint written from a Hugging Face folder, one tensor in memory at a time.

torch.distributed.checkpoint's own writer asks for each tensor when it is that one's turn; it is read then, and dropped
when it is in the file. No model is built and no process group is started.
"""

import dataclasses
import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.distributed.checkpoint import FileSystemWriter
from torch.distributed.checkpoint.default_planner import DefaultSavePlanner, create_default_global_save_plan
from torch.distributed.checkpoint.filesystem import _StoragePrefix
from torch.distributed.checkpoint.metadata import ChunkStorageMetadata, Metadata, MetadataIndex, TensorProperties
from torch.distributed.checkpoint.planner import SavePlan, TensorWriteData, WriteItem, WriteItemType

from pivotrl.policy.architecture import Architecture
from pivotrl.policy.dist_map import DistParam, dist_params
from pivotrl.policy.hf_files import HfFiles
from pivotrl.policy.mapping import HfTensor, join


def write_checkpoint(folder: Path, arch: Architecture, files: HfFiles, dtype: torch.dtype, max_bytes: int) -> int:
    """Write the weights of a Hugging Face folder as a checkpoint that any layout reads.

    Args:
        folder: must exist; what is in its subfolders gets checksums too.
        arch: architecture of `files`.
        files: the Hugging Face folder.
        dtype: type of the stored weights.
        max_bytes: size of one file, unless one tensor is larger.

    Returns:
        The number of Hugging Face tensors written.

    Raises:
        ValueError: a tensor is missing or has another shape.
    """
    from pivotrl.policy import checkpoint_checksums

    planner = _LazyPlanner(arch, files, dtype)
    writer = FileSystemWriter(folder, per_thread_copy_ahead=0)  # reads nothing ahead
    planner.set_up_planner({}, None, is_coordinator=True)
    writer.set_up_storage_writer(is_coordinator=True)
    plan = writer.prepare_local_plan(planner.create_local_plan())
    plans, metadata = planner.create_global_plan([plan])
    (plan,) = writer.prepare_global_plan(plans)
    results = []
    for number, items in enumerate(_cut(plan.items, max_bytes)):
        of_file = dataclasses.replace(plan, items=items, storage_data=_StoragePrefix(f"__{number}_"))
        results.append(writer.write_data(of_file, planner).wait())
    writer.finish(metadata, results)
    _write_small_files(folder)
    written = [file for file in sorted(folder.rglob("*")) if file.is_file()]
    entries = {file.relative_to(folder).as_posix(): checkpoint_checksums.settle(file) for file in written}
    checkpoint_checksums.write_manifest(folder, entries)
    return sum(len(param.param.parts) for param in planner.params)


def _write_small_files(folder: Path) -> None:
    """What Megatron wants beside torch's files: the state that is not sharded (none), and the format's name."""
    from megatron.core.dist_checkpointing.core import CheckpointingConfig, save_config

    common = io.BytesIO()
    torch.save({}, common)
    (folder / "common.pt").write_bytes(common.getvalue())  # torch's own writing does not say why it fails
    save_config(CheckpointingConfig("torch_dist", 1), str(folder))


def _cut(items: list[WriteItem], max_bytes: int) -> Iterator[list[WriteItem]]:
    """Runs of items of at most `max_bytes`; a longer one is alone."""
    run: list[WriteItem] = []
    room = max_bytes
    for item in items:
        assert item.tensor_data is not None
        size = item.tensor_data.chunk.sizes.numel() * item.tensor_data.properties.dtype.itemsize
        if run and size > room:
            yield run
            run, room = [], max_bytes
        run.append(item)
        room -= size
    yield run


class _LazyPlanner(DefaultSavePlanner):
    """Plans from names and shapes, and reads a tensor when the writer asks for it."""

    def __init__(self, arch: Architecture, files: HfFiles, dtype: torch.dtype) -> None:
        super().__init__(flatten_state_dict=False)
        self.params = dist_params(arch)
        self._arch, self._files, self._dtype = arch, files, dtype
        self._sources: dict[tuple[str, tuple[int, ...]], tuple[DistParam, tuple[HfTensor, ...]]] = {}

    def create_local_plan(self) -> SavePlan:
        items = []
        properties = TensorProperties(dtype=self._dtype)
        for param in self.params:
            for parts, offset, sizes in param.boxes():
                self._sources[param.key, offset] = param, parts
                chunk = ChunkStorageMetadata(torch.Size(offset), torch.Size(sizes))
                data = TensorWriteData(chunk, properties, torch.Size(param.stored_shape))
                index = MetadataIndex(param.key, torch.Size(offset))
                items.append(WriteItem(index, WriteItemType.SHARD, tensor_data=data))
        self.plan = SavePlan(items)
        return self.plan

    def create_global_plan(self, all_plans: list[SavePlan]) -> tuple[list[SavePlan], Metadata]:
        # Without torch's check for overlaps, which compares the chunks of a name by pairs: 30B-A3B has 12,288 of one.
        return create_default_global_save_plan(all_plans)

    def resolve_data(self, write_item: WriteItem) -> Any:
        assert write_item.index.offset is not None and write_item.tensor_data is not None
        param, parts = self._sources[write_item.index.fqn, tuple(write_item.index.offset)]
        tensors: list[Tensor] = [self._files.copy(part.name, part.shape).to(self._dtype) for part in parts]
        tensor = join(param.param, tensors, self._arch) if len(tensors) > 1 else tensors[0]
        return tensor.reshape(write_item.tensor_data.chunk.sizes)
