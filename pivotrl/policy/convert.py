"""Between Hugging Face folders and Megatron checkpoints, and the proof that nothing is lost (tools/convert_hf.py)."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from pivotrl.json_object import JsonObject
from pivotrl.policy import checkpoint_files, device, parallel
from pivotrl.policy.architecture import Architecture
from pivotrl.policy.config import ParallelConfig
from pivotrl.policy.hf_files import HfFiles, copy_side_files, write_folder
from pivotrl.policy.model import build_model
from pivotrl.policy.weights import export_hf, load_hf, load_model_weights, save_model

HF_SUBFOLDER = "hf"
"""Folder of a converted checkpoint that holds the config and the tokenizer."""

LOGIT_TOLERANCE = 1e-4
"""Largest difference between logits, as a share of the largest logit. fp32 rounding of a 30-layer model gives 1e-5."""


def to_megatron(hf: Path, out: Path, layout: ParallelConfig) -> None:
    """Write a `torch_dist` checkpoint of the weights, with the config and the tokenizer in `out/hf` (collective).

    Any layout can read it, whatever `layout` wrote it.

    Raises:
        ValueError: the folder cannot be read, or `out` is in use.
    """
    refuse_used(out)
    model, _, world = _build(hf, layout, HfFiles(hf).dtype)
    load_hf(model, Architecture.from_hf(hf), hf)
    unfinished = _start(out, world.rank)
    dist.barrier()
    save_model(model, unfinished)
    dist.barrier()
    if world.rank == 0:
        copy_side_files(hf, unfinished / HF_SUBFOLDER)
        _finish(unfinished, out)
        print(f"{out}: Megatron checkpoint of {hf}, {Architecture.from_hf(hf).name}")
    dist.barrier()


def to_hf(checkpoint: Path, out: Path, layout: ParallelConfig, hf: Path | None = None) -> None:
    """Write a Hugging Face folder from a checkpoint of `to_megatron` or of a training run (collective).

    Raises:
        ValueError: the checkpoint is missing, incomplete or of another model, or `out` is in use.
    """
    refuse_used(out)
    source = hf or side_files_of(checkpoint)
    dtype = checkpoint_files.weights_dtype(checkpoint)
    model, arch, world = _build(source, layout, dtype)
    load_model_weights(checkpoint, model)
    tensors = export_hf(model, arch)
    if world.rank == 0:
        unfinished = _start(out, world.rank)
        count = write_folder(tensors, source, unfinished, dtype)
        _finish(unfinished, out)
        print(f"{out}: {count} tensors, {str(dtype).removeprefix('torch.')}")
    else:
        for _ in tensors:
            pass
    dist.barrier()


def verify(hf: Path, layout: ParallelConfig, weights_only: bool = False) -> list[str]:
    """Load the folder on this layout and compare what comes out with the files and with transformers (collective).

    The model is built in fp32, which holds the stored values exactly, so the bytes that come back are those of the
    files and the logits show the map rather than rounding.

    Args:
        hf: the Hugging Face folder.
        layout: the layout to load it on.
        weights_only: leave out the logits, for a model too large for one process.

    Returns:
        On rank 0, what differs, one line each (names of tensors, bytes, logits); empty where all is equal.
    """
    model, arch, world = _build(hf, layout, torch.float32)
    load_hf(model, arch, hf)
    files = HfFiles(hf)
    problems = _compare_weights(files, arch, export_hf(model, arch, stack_experts=files.stacked_experts), world.rank)
    if not weights_only:
        ours = _logits(model, arch, world, layout.tensor)
        if world.rank == 0:
            problems += _compare_logits(hf, arch, layout.tensor, ours)
    dist.barrier()
    return problems


def _compare_weights(files: HfFiles, arch: Architecture, ours: Iterator[tuple[str, Tensor]], rank: int) -> list[str]:
    if rank:
        for _ in ours:
            pass
        return []
    missing = set(files.file_of)
    problems, equal, total_bytes = [], 0, 0
    for name, tensor in ours:
        if name not in files.file_of:
            problems.append(f"{name}: exported, but not in {files.path}")
            continue
        missing.discard(name)
        stored = files.whole(name)
        back = tensor.to(device="cpu", dtype=stored.dtype).contiguous()
        if back.shape != stored.shape:
            problems.append(f"{name}: shape {list(back.shape)} came back, {list(stored.shape)} is stored")
        elif not torch.equal(back.view(torch.uint8), stored.contiguous().view(torch.uint8)):
            problems.append(f"{name}: {(back != stored).sum().item()} of {stored.numel()} values came back changed")
        else:
            equal += 1
            total_bytes += stored.nbytes
    if arch.tied and "lm_head.weight" in missing:
        # A copy that transformers ignores; it must be a copy.
        missing.discard("lm_head.weight")
        if not torch.equal(files.whole("lm_head.weight"), files.whole("model.embed_tokens.weight")):
            problems.append("lm_head.weight: stored and different, though config.json ties it to the embedding")
    missing = {name for name in missing if not name.endswith(".rotary_emb.inv_freq")}
    problems += [f"{name}: in {files.path}, but not exported" for name in sorted(missing)]
    print(f"weights: {equal} tensors of {len(files.file_of)} came back equal, {total_bytes} bytes")
    return problems


def _probe(arch: Architecture, multiple_of: int) -> Tensor:
    """Token ids [2, 8 x tensor] to compare logits on."""
    generator = torch.Generator().manual_seed(0)
    return torch.randint(0, arch.vocab, (2, 8 * multiple_of), generator=generator)


def _logits(model: Any, arch: Architecture, world: parallel.World, multiple_of: int) -> Tensor:
    """[2, S, V] of the probe on every rank."""
    from megatron.core.pipeline_parallel import get_forward_backward_func
    from megatron.core.tensor_parallel import gather_from_tensor_model_parallel_region

    ids = _probe(arch, multiple_of).to(device.current().torch_device)
    positions = torch.arange(ids.shape[1], device=ids.device).expand_as(ids)

    def whole(logits: Tensor) -> tuple[Tensor, Tensor]:
        return logits.sum(), gather_from_tensor_model_parallel_region(logits)[..., : arch.vocab]

    def step(_: Any, chunk: Any) -> tuple[Tensor, Any]:
        return chunk(ids, positions, None), whole

    with device.scope(), torch.no_grad():
        outputs = get_forward_backward_func()(
            forward_step_func=step,
            data_iterator=None,
            model=[model.eval()],
            num_microbatches=1,
            seq_length=ids.shape[1],
            micro_batch_size=ids.shape[0],
            forward_only=True,
        )
    everyone: list[Tensor | None] = [None] * world.world_size
    dist.all_gather_object(everyone, outputs[0].float().cpu() if outputs else None, group=world.object_group)
    return next(logits for logits in everyone if logits is not None)


def _compare_logits(hf: Path, arch: Architecture, multiple_of: int, ours: Tensor) -> list[str]:
    import transformers

    transformers.utils.logging.disable_progress_bar()
    theirs_model = transformers.AutoModelForCausalLM.from_pretrained(hf, dtype=torch.float32).eval()
    with torch.no_grad():
        theirs = theirs_model(input_ids=_probe(arch, multiple_of)).logits
    error, largest = (ours - theirs).abs().max().item(), theirs.abs().max().item()
    print(f"logits: largest difference from transformers {error:.1e}, largest logit {largest:.3g} (fp32)")
    if error <= LOGIT_TOLERANCE * largest:
        return []
    return [f"logits: they differ from transformers by {error:.3g}, more than {LOGIT_TOLERANCE:g} x {largest:.3g}"]


def _build(hf: Path, layout: ParallelConfig, dtype: torch.dtype) -> tuple[Any, Architecture, parallel.World]:
    arch = Architecture.from_hf(hf)
    world = parallel.initialize(layout, seed=0)
    parallel.check_layout(layout, arch, world.world_size)
    (model,) = build_model(arch, layout, dtype)
    return model, arch, world


def refuse_used(out: Path) -> None:
    """Stop before the work if `out` holds something or cannot be made.

    Raises:
        ValueError: it does, or a folder above it is a file, or may not be written.
    """
    try:
        if out.exists() and (not out.is_dir() or any(out.iterdir())):
            raise ValueError(f"--out {out}: it exists and is not an empty folder; name a new one")
        above = next(folder for folder in out.absolute().parents if folder.exists())
    except OSError as error:  # a name that is too long, a folder that may not be read
        raise ValueError(f"--out {out}: {error.strerror}; name another folder") from None
    if not above.is_dir():
        raise ValueError(f"--out {out}: {above} is a file, not a folder; name another folder")
    if not os.access(above, os.W_OK | os.X_OK):
        raise ValueError(f"--out {out}: {above} may not be written; name another folder")


def _start(out: Path, rank: int) -> Path:
    """Make the folder to write before all is there; what an interrupted command left is removed (both by rank 0)."""
    unfinished = out.with_name(out.name + ".partial")
    if rank == 0:
        shutil.rmtree(unfinished, ignore_errors=True)
        try:
            unfinished.mkdir(parents=True)
        except OSError as error:
            raise ValueError(f"--out {out}: cannot make {unfinished} ({error.strerror}); name another folder") from None
    return unfinished


def _finish(unfinished: Path, out: Path) -> None:
    if out.exists():
        out.rmdir()  # empty: refuse_used saw to it
    unfinished.rename(out)


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
