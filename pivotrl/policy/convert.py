"""Between Hugging Face folders and Megatron checkpoints, streaming (tools/convert_hf.py)."""

from pathlib import Path

from pivotrl.json_object import JsonObject
from pivotrl.policy import checkpoint_files
from pivotrl.policy.architecture import Architecture, first_difference
from pivotrl.policy.convert_out import refuse_used, written_whole
from pivotrl.policy.hf_files import HfFiles, copy_side_files, write_folder
from pivotrl.policy.weights import check_known

HF_SUBFOLDER = "hf"
"""Folder of a converted checkpoint that holds the config and the tokenizer."""


def to_megatron(hf: Path, out: Path, max_bytes: int) -> None:
    """Write a `torch_dist` checkpoint of the weights, with the config and the tokenizer in `out/hf`.

    Any layout can read it. One tensor is in memory at a time.

    Args:
        hf: the Hugging Face folder.
        out: the folder to write, new or empty.
        max_bytes: size of one file of the checkpoint, unless one tensor is larger.

    Raises:
        ValueError: the folder cannot be read, or `out` is in use.
    """
    from pivotrl.policy import device

    device.prepare()
    from pivotrl.policy.dist_write import write_checkpoint

    refuse_used(out)
    arch, files = Architecture.from_hf(hf), HfFiles(hf)
    check_known(files, arch)
    others = sorted(name for name in files.file_of if files.dtype_of(name) != files.dtype)
    if others:
        print(f"{hf}: {others[0]} and {len(others) - 1} more are not {files.dtype}, as the embedding is: converted")
    with written_whole(out, hf) as unfinished:
        copy_side_files(hf, unfinished / HF_SUBFOLDER)
        count = write_checkpoint(unfinished, arch, files, files.dtype, max_bytes)
    print(f"{out}: Megatron checkpoint of {hf}, {arch.name}, {count} tensors, {_name(files.dtype)}")


def to_hf(checkpoint: Path, out: Path, max_bytes: int, hf: Path | None = None) -> None:
    """Write a Hugging Face folder from a checkpoint of `to_megatron` or of a training run on any layout.

    One output file is in memory, and the tensor that is read.

    Args:
        checkpoint: its folder.
        out: the folder to write, new or empty.
        max_bytes: size of one safetensors file, unless one tensor is larger.
        hf: a folder with config and tokenizer, where the checkpoint names none.

    Raises:
        ValueError: the checkpoint is missing, damaged or of another model, or `out` is in use.
    """
    from pivotrl.policy.dist_read import DistFiles

    refuse_used(out)
    source = hf or side_files_of(checkpoint)
    arch = Architecture.from_hf(source)
    if hf and (other := other_config(checkpoint, arch)):
        raise ValueError(f"--hf {hf}: {other}; leave --hf out, or give a folder of the same model")
    stored = DistFiles(checkpoint, arch)
    with written_whole(out, checkpoint) as unfinished:
        tensors = ((tensor.name, values) for tensor, values in stored.tensors())
        count = write_folder(tensors, source, unfinished, stored.dtype, max_bytes)
    print(f"{out}: {count} tensors, {_name(stored.dtype)}")


def _name(dtype: object) -> str:
    return str(dtype).removeprefix("torch.")


def other_config(checkpoint: Path, arch: Architecture) -> str | None:
    """In what the config.json that lies in a checkpoint says another model than `arch`, None where it does not.

    A training run's checkpoint has none inside.
    """
    own = checkpoint / HF_SUBFOLDER
    if not (own / "config.json").is_file() or (held := Architecture.from_hf(own)) == arch:
        return None
    return f"its config.json is of another model than {own / 'config.json'}: {first_difference(arch, held)}"


def side_files_of(checkpoint: Path) -> Path:
    """The folder with config and tokenizer that belongs to a checkpoint.

    Raises:
        ValueError: the checkpoint names none, or one that is gone, or its run.json is damaged.
    """
    if not checkpoint.is_dir():
        raise ValueError(f"{checkpoint}: no such folder; {checkpoint_files.WHAT}")
    if (checkpoint / HF_SUBFOLDER / "config.json").is_file():
        return checkpoint / HF_SUBFOLDER
    run = checkpoint / "run.json"
    if not run.is_file():
        raise ValueError(f"{checkpoint}: neither {HF_SUBFOLDER}/config.json nor run.json is there; add --hf FOLDER")
    path = JsonObject(run).values
    for key in ("config", "model", "path"):
        path = path.get(key) if isinstance(path, dict) else None
    if not isinstance(path, str):
        raise ValueError(f"{run}: no text at config.model.path, so the file is not a run's; add --hf FOLDER")
    if not (Path(path) / "config.json").is_file():
        raise ValueError(f"{run}: the run's model.path is {path}, where no config.json is now; add --hf FOLDER")
    return Path(path)
