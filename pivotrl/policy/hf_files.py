"""Hugging Face folders of safetensors: read slices of them, write them."""

import json
import os
import reprlib
import shutil
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from pivotrl.json_object import JsonObject
from pivotrl.policy.mapping import MIXTRAL_MOE

INDEX = "model.safetensors.index.json"
SINGLE = "model.safetensors"
EMBEDDING = "model.embed_tokens.weight"
_WEIGHT_SUFFIXES = {".safetensors", ".bin", ".pt", ".pth", ".gguf", ".h5", ".msgpack", ".onnx"}


class HfFiles:
    """The tensors of a Hugging Face folder, read lazily and in slices.

    An MoE layer's experts may be stored one by one or stacked (`mlp.experts.gate_up_proj` [E, 2I, H] and `down_proj`
    [E, H, I]); either way they are read under the names of single experts. Mixtral's blocks are read under the name
    `block_sparse_moe`, also where transformers 5 stored them as `mlp`.
    """

    def __init__(self, path: str | Path) -> None:
        """Open the folder.

        Raises:
            ValueError: there are no safetensors, or a file that the index names is missing or unreadable, or a tensor
                is there twice.
        """
        self.path = Path(path)
        self._open: dict[str, Any] = {}
        if (self.path / INDEX).is_file():
            self.file_of = self._read_index()
            self._check_index()
        elif (self.path / SINGLE).is_file():
            self.file_of = dict.fromkeys(self._handle(SINGLE).keys(), SINGLE)
        else:
            raise ValueError(
                f"{self.path}: neither {SINGLE} nor {INDEX} is there; "
                "save the model with transformers' save_pretrained(..., safe_serialization=True)"
            )

    def _read_index(self) -> dict[str, str]:
        index = JsonObject(self.path / INDEX)
        files = index.values.get("weight_map")
        if not isinstance(files, dict):
            raise ValueError(f"{index.file}: not an index of safetensors files (no object under weight_map)")
        for file in files.values():
            if not isinstance(file, str) or Path(file).name != file or not file.isprintable():
                raise ValueError(f"{index.file}: {reprlib.repr(file)} is no name of a file beside it")
        if (self.path / SINGLE).is_file() and SINGLE not in files.values():
            raise ValueError(
                f"{self.path}: {SINGLE} is there and {INDEX}, which does not name it: two models; remove one of them"
            )
        return files

    def _check_index(self) -> None:
        """See that every tensor is in the file that the index names, and in no other of them."""
        for file in sorted(set(self.file_of.values())):
            names = set(self._handle(file).keys())
            absent = next((n for n, f in self.file_of.items() if f == file and n not in names), None)
            if absent is not None:
                raise ValueError(f"{self.path / file}: no tensor {absent!r}, though {INDEX} says that it is there")
            twice = min((n for n in names if self.file_of.get(n, file) != file), default=None)
            if twice is not None:
                raise ValueError(f"{self.path / file}: {twice!r} is in {self.file_of[twice]} too, as {INDEX} says")

    def _handle(self, file: str) -> Any:
        from safetensors import SafetensorError, safe_open

        if file not in self._open:
            if not os.path.isfile(self.path / file):  # where Path.is_file raises, as for a name that is too long: no
                raise ValueError(
                    f"{self.path / file}: no such file, though {INDEX} names it; copy or download it again"
                )
            try:
                self._open[file] = safe_open(str(self.path / file), framework="pt")
            except (SafetensorError, OSError) as error:
                raise ValueError(
                    f"{self.path / file}: not a whole safetensors file ({error}); copy or download it again"
                ) from None
        return self._open[file]

    @property
    def stacked_experts(self) -> bool:
        """Whether the experts of a layer are stored as two stacked tensors."""
        return any(name.endswith(".experts.down_proj") for name in self.file_of)

    @property
    def dtype(self) -> torch.dtype:
        """Type of the stored embedding."""
        if EMBEDDING not in self.file_of:
            raise ValueError(f"{self.path}: no tensor {EMBEDDING!r} among its {len(self.file_of)}")
        return self.dtype_of(EMBEDDING)

    def dtype_of(self, name: str) -> torch.dtype:
        """Type of one stored tensor, under the name that the file gives it."""
        view = self._handle(self.file_of[name]).get_slice(name)
        return view[:0].dtype if view.get_shape() else self.whole(name).dtype

    def shape_of(self, name: str) -> list[int]:
        """Shape of one stored tensor, under the name that the file gives it."""
        return self._handle(self.file_of[name]).get_slice(name).get_shape()

    def has(self, name: str, shape: tuple[int, ...]) -> bool:
        """Whether the tensor that should have `shape` is stored, alone or stacked, in whatever shape."""
        return any(stored.name in self.file_of for stored in self._places(name, shape))

    def whole(self, name: str) -> Tensor:
        """One stored tensor, under the name that the file gives it."""
        return self._handle(self.file_of[name]).get_tensor(name)

    def read(self, name: str, shape: tuple[int, ...], dim: int | None, part: int, parts: int) -> Tensor:
        """Shard `part` of `parts` along `dim` (None: the whole) of the tensor that should have `shape`.

        The shards are equal: where `parts` does not divide, zeros follow the tensor's last rows.

        Raises:
            ValueError: the tensor is missing or has another shape.
        """
        stored = self._find(name, shape)
        return cut(self._handle(self.file_of[stored.name]).get_slice(stored.name), stored, shape, dim, part, parts)

    def copy(self, name: str, shape: tuple[int, ...]) -> Tensor:
        """The whole tensor that should have `shape`, in memory of its own: nothing of the file stays mapped.

        Raises:
            ValueError: the tensor is missing or has another shape.
        """
        from safetensors import safe_open

        stored = self._find(name, shape)
        file = str(self.path / self.file_of[stored.name])
        if not stored.expert:
            with safe_open(file, framework="pt", backend="pread") as handle:
                return handle.get_tensor(stored.name)
        with safe_open(file, framework="pt") as handle:  # mapped, because `pread` would read all experts
            return cut(handle.get_slice(stored.name), stored, shape, None, 0, 1).clone()

    def _find(self, name: str, shape: tuple[int, ...]) -> "Stored":
        """Where the tensor lies.

        Raises:
            ValueError: the tensor is missing or has another shape.
        """
        found = next((stored for stored in self._places(name, shape) if stored.name in self.file_of), None)
        if found is None:
            raise ValueError(f"{self.path}: no tensor {name!r} (of shape {list(shape)}) among its {len(self.file_of)}")
        file = self.file_of[found.name]
        is_shape = list(self._handle(file).get_slice(found.name).get_shape())
        if is_shape[len(found.expert) :] != list(found.shape) or (found.expert and is_shape[0] <= found.expert[0]):
            raise ValueError(
                f"{self.path / file}: {found.name!r} has shape {is_shape}, but config.json makes {name!r} {list(shape)}"
            )
        return found

    def _places(self, name: str, shape: tuple[int, ...]) -> Iterator["Stored"]:
        """Where the tensor may lie: under its own name, or in a stacked one."""
        for stored in (name, in_memory_name(name)):
            yield Stored(stored, (), 0, shape)
            head, found, tail = stored.partition(".experts.")
            expert, kind, *_ = [*tail.split("."), ""]
            if found and kind in ("down_proj", MIXTRAL_MOE.down):
                yield Stored(f"{head}.experts.down_proj", (int(expert),), 0, shape)
            elif found:
                rows = shape[0] if kind in ("up_proj", MIXTRAL_MOE.up) else 0
                yield Stored(f"{head}.experts.gate_up_proj", (int(expert),), rows, (2 * shape[0], *shape[1:]))


def in_memory_name(name: str) -> str:
    """What transformers 5 calls a tensor in memory: Mixtral's blocks are `mlp` there."""
    return name.replace(f".{MIXTRAL_MOE.block}.", ".mlp.")


@dataclass(frozen=True, slots=True)
class Stored:
    """Where a tensor lies in a file: alone, or inside the stacked tensor of a layer's experts."""

    name: str
    expert: tuple[int, ...]
    """The first index, empty for a tensor that is alone."""
    row: int
    """Where it begins, in its first dimension."""
    shape: tuple[int, ...]
    """Of the stored tensor, without the experts' dimension."""


def cut(view: Any, stored: Stored, shape: tuple[int, ...], dim: int | None, part: int, parts: int) -> Tensor:
    """Shard `part` of `parts` along `dim` of a tensor of `shape` that lies in `view`, which is indexed by slices."""
    begin, size = [0] * len(shape), list(shape)
    missing = 0
    if dim is not None:
        rows = -(-shape[dim] // parts)
        begin[dim] = min(part * rows, shape[dim])
        size[dim] = min(rows, shape[dim] - begin[dim])
        missing = rows - size[dim]
    begin[0] += stored.row
    index = [slice(expert, expert + 1) for expert in stored.expert]
    index += [slice(b, b + s) for b, s in zip(begin, size)]
    shard = view[tuple(index)].reshape(size)
    if missing:
        shard = torch.cat([shard, shard.new_zeros(*size[:dim], missing, *size[dim + 1 :])], dim)
    return shard


def read_shard(
    source: HfFiles | Mapping[str, Tensor], name: str, shape: tuple[int, ...], dim: int | None, part: int, parts: int
) -> Tensor:
    """`HfFiles.read`, also from tensors in memory."""
    if isinstance(source, HfFiles):
        return source.read(name, shape, dim, part, parts)
    tensor = source[name]
    assert tuple(tensor.shape) == shape, (name, tensor.shape, shape)
    return cut(tensor, Stored(name, (), 0, shape), shape, dim, part, parts)


def copy_side_files(source: Path, target: Path) -> None:
    """Copy everything of a Hugging Face folder that is not weights: config, tokenizer, chat template."""
    target.mkdir(parents=True, exist_ok=True)
    for file in sorted(source.iterdir()):
        if file.is_file() and file.suffix not in _WEIGHT_SUFFIXES and not file.name.endswith(".index.json"):
            shutil.copyfile(file, target / file.name)


def write_folder(
    tensors: Iterable[tuple[str, Tensor]],
    source: Path,
    target: Path,
    dtype: torch.dtype,
    max_bytes: int = 4 << 30,
) -> int:
    """Write a folder that transformers and vLLM load: safetensors, and `source`'s config and tokenizer.

    Args:
        tensors: names and whole tensors, one for each expert; read once.
        source: the Hugging Face folder whose other files are copied.
        target: the folder to write; the weights appear in it only when all are written.
        dtype: type of the stored weights.
        max_bytes: size of one safetensors file.

    Returns:
        The number of tensors written.
    """
    from safetensors.torch import save_file

    copy_side_files(source, target)
    config = json.loads((target / "config.json").read_text(encoding="utf-8"))
    for key in {"dtype", "torch_dtype"} & config.keys() or {"dtype"}:
        config[key] = str(dtype).removeprefix("torch.")
    (target / "config.json").write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")

    shards: list[list[str]] = []
    pending: dict[str, Tensor] = {}
    pending_bytes = total = 0

    def flush() -> None:
        nonlocal pending, pending_bytes
        partial = target / f"{len(shards)}.partial"
        save_file(pending, str(partial), metadata={"format": "pt"})
        shutil.copymode(target / "config.json", partial)  # safetensors writes files that only their owner reads
        shards.append(list(pending))
        pending, pending_bytes = {}, 0

    for name, tensor in tensors:
        stored = tensor.to(device="cpu", dtype=dtype).contiguous()
        if pending and pending_bytes + stored.nbytes > max_bytes:
            flush()
        # Experts are views of one stacked tensor; safetensors refuses tensors that share memory.
        pending[name] = stored.clone() if stored.untyped_storage().nbytes() != stored.nbytes else stored
        pending_bytes += stored.nbytes
        total += stored.nbytes
    flush()
    if len(shards) == 1:
        (target / "0.partial").replace(target / SINGLE)
    else:
        files = [f"model-{i + 1:05d}-of-{len(shards):05d}.safetensors" for i in range(len(shards))]
        for i, file in enumerate(files):
            (target / f"{i}.partial").replace(target / file)
        weight_map = {name: file for names, file in zip(shards, files) for name in names}
        index = {"metadata": {"total_size": total}, "weight_map": weight_map}
        (target / INDEX).write_text(json.dumps(index, indent=2) + "\n", encoding="utf-8")
    return sum(len(names) for names in shards)
