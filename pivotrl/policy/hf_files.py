"""Hugging Face folders of safetensors: read slices of them, write them."""

import json
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from pivotrl.json_object import JsonObject

INDEX = "model.safetensors.index.json"
SINGLE = "model.safetensors"
_WEIGHT_SUFFIXES = {".safetensors", ".bin", ".pt", ".pth", ".gguf", ".h5", ".msgpack", ".onnx"}


class HfFiles:
    """The tensors of a Hugging Face folder, read lazily and in slices.

    An MoE layer's experts may be stored one by one or stacked (`mlp.experts.gate_up_proj` [E, 2I, H] and `down_proj`
    [E, H, I]); either way they are read under the names of single experts.
    """

    def __init__(self, path: str | Path) -> None:
        """Open the folder.

        Raises:
            ValueError: there are no safetensors, or a file that the index names is missing or unreadable.
        """
        self.path = Path(path)
        self._open: dict[str, Any] = {}
        if (self.path / INDEX).is_file():
            self.file_of = self._read_index()
            for file in sorted(set(self.file_of.values())):
                names = set(self._handle(file).keys())
                absent = next((n for n, f in self.file_of.items() if f == file and n not in names), None)
                if absent is not None:
                    raise ValueError(f"{self.path / file}: no tensor {absent!r}, though {INDEX} says that it is there")
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
        return {str(name): Path(str(file)).name for name, file in files.items()}

    def _handle(self, file: str) -> Any:
        from safetensors import SafetensorError, safe_open

        if file not in self._open:
            if not (self.path / file).is_file():
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
        return any(name.endswith("mlp.experts.down_proj") for name in self.file_of)

    @property
    def dtype(self) -> torch.dtype:
        """Type of the stored embedding."""
        name = "model.embed_tokens.weight"
        if name not in self.file_of:
            raise ValueError(f"{self.path}: no tensor {name!r} among its {len(self.file_of)}")
        return self._handle(self.file_of[name]).get_slice(name)[:0].dtype

    def whole(self, name: str) -> Tensor:
        """One stored tensor, under the name that the file gives it."""
        return self._handle(self.file_of[name]).get_tensor(name)

    def read(self, name: str, shape: tuple[int, ...], dim: int | None, part: int, parts: int) -> Tensor:
        """Shard `part` of `parts` along `dim` (None: the whole) of the tensor that should have `shape`.

        Raises:
            ValueError: the tensor is missing or has another shape.
        """
        begin = [0] * len(shape)
        size = list(shape)
        if dim is not None:
            size[dim] = shape[dim] // parts
            begin[dim] = part * size[dim]
        stored, prefix, stored_shape = name, [], shape
        if name not in self.file_of:
            stored, prefix, rows, stored_shape = self._stacked(name, shape)
            begin[0] += rows
        if stored not in self.file_of:
            raise ValueError(f"{self.path}: no tensor {name!r} (of shape {list(shape)}) among its {len(self.file_of)}")
        view = self._handle(self.file_of[stored]).get_slice(stored)
        found = list(view.get_shape())
        if found[len(prefix) :] != list(stored_shape) or (prefix and found[0] <= prefix[0]):
            raise ValueError(
                f"{self.path / self.file_of[stored]}: {stored!r} has shape {found}, "
                f"but config.json makes {name!r} {list(shape)}"
            )
        index = tuple(slice(b, b + s) for b, s in zip([*prefix, *begin], [*([1] * len(prefix)), *size]))
        return view[index].reshape(size)

    def _stacked(self, name: str, shape: tuple[int, ...]) -> tuple[str, list[int], int, tuple[int, ...]]:
        """Where one expert's tensor lies in a stacked one: stored name, [expert], first row, shape of one expert's."""
        head, found, tail = name.partition(".mlp.experts.")
        if not found:
            return name, [], 0, shape
        expert, kind = int(tail.split(".")[0]), tail.split(".")[1]
        if kind == "down_proj":
            return f"{head}.mlp.experts.down_proj", [expert], 0, shape
        rows = shape[0] if kind == "up_proj" else 0
        return f"{head}.mlp.experts.gate_up_proj", [expert], rows, (2 * shape[0], *shape[1:])


def read_shard(
    source: HfFiles | Mapping[str, Tensor], name: str, shape: tuple[int, ...], dim: int | None, part: int, parts: int
) -> Tensor:
    """`HfFiles.read`, also from tensors in memory."""
    if isinstance(source, HfFiles):
        return source.read(name, shape, dim, part, parts)
    tensor = source[name]
    assert tuple(tensor.shape) == shape, (name, tensor.shape, shape)
    return tensor if dim is None else tensor.chunk(parts, dim)[part]


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
