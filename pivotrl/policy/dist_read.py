"""The weights of a Megatron `torch_dist` checkpoint under their Hugging Face names, one tensor in memory at a time.

The checkpoint may come from any layout, or from a training run, whose optimizer state stays unread.
"""

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from pickle import UnpicklingError

import torch
from torch import Tensor
from torch.distributed.checkpoint.metadata import ChunkStorageMetadata, MetadataIndex, TensorStorageMetadata
from torch.distributed.checkpoint.utils import _create_file_view

from pivotrl.policy import checkpoint_files
from pivotrl.policy.architecture import Architecture
from pivotrl.policy.dist_map import DistParam, dist_params
from pivotrl.policy.mapping import HfTensor, split

Box = tuple[tuple[int, ...], tuple[int, ...]]
"""Offset and sizes."""


class DistFiles:
    """A checkpoint of the architecture, read lazily."""

    def __init__(self, folder: Path, arch: Architecture) -> None:
        """Read the table of contents, and compare every file with its checksum where the checkpoint has any.

        Raises:
            ValueError: the folder is no checkpoint, a file is missing or damaged, or a tensor of the architecture is
                missing or has another shape, or the checkpoint has weights that the architecture has not. The message
                names it.
        """
        self.path, self._arch = folder, arch
        metadata = checkpoint_files.check_complete(folder)
        check_files(folder)
        self.dtype = checkpoint_files.weights_dtype(folder)
        self.params = dist_params(arch)
        self._storage = metadata.storage_data
        self._chunks: dict[tuple[str, tuple[int, ...]], list[ChunkStorageMetadata]] = {}
        self._dtypes: dict[str, torch.dtype] = {}
        self._rows: dict[str, int] = {}
        for param in self.params:
            entry = metadata.state_dict_metadata.get(param.key)
            if not isinstance(entry, TensorStorageMetadata):
                raise ValueError(f"{folder}: the checkpoint has no {param.key}, which {arch.name} has")
            if param.key not in self._dtypes:
                self._dtypes[param.key] = entry.properties.dtype
                self._rows[param.key] = entry.size[0]
                self._check_shape(param, tuple(entry.size))
                self._index(param.key, entry, len(param.index))
        surplus = sorted(key for key, entry in metadata.state_dict_metadata.items() if self._is_unknown(key, entry))
        if surplus:
            raise ValueError(f"{folder}: the checkpoint has {surplus[0]}, which {arch.name} by config.json has not")

    def _is_unknown(self, key: str, entry: object) -> bool:
        """A weight of another model. The optimizer's state and layers' extra state are none."""
        weight = isinstance(entry, TensorStorageMetadata) and not key.startswith("optimizer.")
        return weight and "_extra_state" not in key and key not in self._dtypes

    def tensors(self) -> Iterator[tuple[HfTensor, Tensor]]:
        """Every tensor of the model, whole, in the stored type.

        Raises:
            ValueError: a file is damaged, or a part of a tensor is stored nowhere.
        """
        for param in self.params:
            self._check_padding(param)
            if param.param.join == "qkv":
                whole = self._read(param, 0, param.shape[0])
                for part, view in zip(param.param.parts, split(param.param, whole, self._arch), strict=True):
                    yield part, view.reshape(part.shape)
                del whole, view
            else:
                row = 0
                for part in param.param.parts:
                    yield part, self._read(param, row, part.shape[0])
                    row += part.shape[0]

    def _index(self, key: str, entry: TensorStorageMetadata, leading: int) -> None:
        """Sort a tensor's chunks by layer and expert: there may be thousands, and each is looked for once."""
        found = defaultdict(list)
        for chunk in entry.chunks:
            assert all(size == 1 for size in chunk.sizes[:leading]), (key, chunk)
            found[key, tuple(chunk.offsets[:leading])].append(chunk)
        self._chunks |= found

    def _check_shape(self, param: DistParam, found: tuple[int, ...]) -> None:
        expected = param.stored_shape
        # An embedding or output layer may have rows of padding.
        padded = not param.index and found[1:] == expected[1:] and found[0] >= expected[0] and len(expected) == 2
        if found != expected and not padded:
            raise ValueError(
                f"{self.path}: {param.key} has shape {list(found)}, but config.json makes it {list(expected)}"
            )

    def _check_padding(self, param: DistParam) -> None:
        """Rows behind a vocabulary are padding, which is zero: others are a larger vocabulary's."""
        rows, expected = self._rows[param.key], param.shape[0]
        if not param.index and rows > expected and self._read(param, expected, rows - expected).any():
            raise ValueError(
                f"{self.path}: {param.key} has {rows} rows, none of them padding, but config.json makes it {expected}"
            )

    def _read(self, param: DistParam, first: int, rows: int) -> Tensor:
        """Rows [first, first + rows) of a parameter."""
        shape = (rows, *param.shape[1:])
        start = (*param.index, first, *(0 for _ in shape[1:]))
        wanted = start, (*(1 for _ in param.index), *shape)
        target, covered = None, 0
        for chunk in self._chunks.get((param.key, param.index), []):
            common = overlap(wanted, (tuple(chunk.offsets), tuple(chunk.sizes)))
            if common is None:
                continue
            values = _box(self._load(param.key, chunk), chunk.offsets, common)
            covered += values.numel()
            if common == wanted and values.untyped_storage().nbytes() == values.nbytes:
                target = values  # no copy of the largest tensors
            else:
                target = torch.empty(wanted[1], dtype=self._dtypes[param.key]) if target is None else target
                _box(target, start, common).copy_(values)
        if target is None or covered != target.numel():
            raise ValueError(f"{self.path}: {covered} of the {math.prod(shape)} values of {param.key}{param.index}")
        return target.reshape(shape)

    def _load(self, key: str, chunk: ChunkStorageMetadata) -> Tensor:
        """One stored chunk. Only tensors are unpickled."""
        info = self._storage[MetadataIndex(key, chunk.offsets)]
        file = self.path / info.relative_path
        try:
            with file.open("rb") as stream:
                return torch.load(_create_file_view(stream, info.offset, info.length), "cpu", weights_only=True)
        except (OSError, RuntimeError, EOFError, ValueError, UnpicklingError) as error:
            reason = " ".join(str(error).split())
            raise ValueError(f"{file}: {key} cannot be read from it ({reason:.200})") from error


def _box(tensor: Tensor, start: Sequence[int], box: Box) -> Tensor:
    """View of a box, where the tensor's first element is at `start`."""
    for dim, (offset, size) in enumerate(zip(*box, strict=True)):
        tensor = tensor.narrow(dim, offset - start[dim], size)
    return tensor


def overlap(one: Box, other: Box) -> Box | None:
    """What two boxes have in common, None where that is nothing."""
    offset = tuple(max(a, b) for a, b in zip(one[0], other[0], strict=True))
    ends = (min(a + s, b + t) for a, s, b, t in zip(*one, *other, strict=True))
    sizes = tuple(end - start for start, end in zip(offset, ends, strict=True))
    return (offset, sizes) if min(sizes) > 0 else None


def check_files(folder: Path) -> None:
    """Compare every file with the checkpoint's checksums, where it has any.

    Raises:
        DamagedCheckpoint: a file is missing or is not what was written, or weights have no checksum; it is named.
    """
    from pivotrl.policy import checkpoint_checksums
    from pivotrl.policy.checkpoint_checksums import DamagedCheckpoint

    if (folder / checkpoint_checksums.MANIFEST).exists():
        try:
            entries = checkpoint_checksums.read_manifest(folder)
            for file in sorted(folder.glob("*.distcp")):
                if file.name not in entries:
                    raise DamagedCheckpoint(f"{file}: {checkpoint_checksums.MANIFEST} does not have it")
            for name, entry in entries.items():
                checkpoint_checksums.check(folder / name, entry)
        except DamagedCheckpoint as damage:
            raise DamagedCheckpoint(f"{damage}; put back the file that was saved, or give another checkpoint") from None
    else:
        print(f"{folder}: it has no {checkpoint_checksums.MANIFEST}, so its files are not verified", flush=True)
