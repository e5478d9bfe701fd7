"""The proof that converting loses nothing (tools/convert_hf.py verify)."""

from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from pivotrl.policy import device, parallel
from pivotrl.policy.architecture import Architecture, first_difference
from pivotrl.policy.chunks import Chunks
from pivotrl.policy.config import ParallelConfig
from pivotrl.policy.hf_files import HfFiles, in_memory_name
from pivotrl.policy.mapping import HfTensor, all_tensors
from pivotrl.policy.model import build_model
from pivotrl.policy.weights import HEAD, export_hf, load_hf, other_head, unknown_tensors

LOGIT_TOLERANCE = 1e-4
"""Largest difference between logits, as a share of the largest logit. fp32 rounding of a 30-layer model gives 1e-5."""
MOST_NAMED = 5
"""Tensors that differ and are named; of the others the number."""


def verify_checkpoint(checkpoint: Path, hf: Path) -> list[str]:
    """Compare a checkpoint's weights with a Hugging Face folder's, one tensor in memory at a time on either side.

    Returns:
        What differs, a line each: types, then the first tensors; empty where all is equal.

    Raises:
        ValueError: the checkpoint or the folder cannot be read.
    """
    from pivotrl.policy.convert import other_config
    from pivotrl.policy.dist_read import DistFiles

    arch, files = Architecture.from_hf(hf), HfFiles(hf)
    other = other_config(checkpoint, arch)
    problems = [f"config.json: {hf}: {other}"] if other else []
    problems += _compare_streams(DistFiles(checkpoint, arch).tensors(), checkpoint, files, arch)
    return problems + _leftovers(files, arch)


def verify_folders(hf: Path, against: Path) -> list[str]:
    """Compare two Hugging Face folders, as `verify_checkpoint`. Single and stacked experts are the same.

    Raises:
        ValueError: a folder cannot be read.
    """
    arch, other = Architecture.from_hf(hf), Architecture.from_hf(against)
    files, others = HfFiles(hf), HfFiles(against)
    if arch != other:
        return [f"config.json: {against} is of another architecture than {hf}: {first_difference(other, arch)}"]
    problems = _leftovers(files, arch) + _leftovers(others, arch)
    pairs, missing = [], []
    for tensor in all_tensors(arch).values():
        if others.has(tensor.name, tensor.shape):
            pairs.append(tensor)
        else:
            missing.append(f"{tensor.name}: not in {against}")
    stream = ((tensor, others.copy(tensor.name, tensor.shape)) for tensor in pairs)
    return problems + _first(missing) + _compare_streams(stream, against, files, arch)


def _compare_streams(
    ours: Iterable[tuple[HfTensor, Tensor]], source: Path, files: HfFiles, arch: Architecture
) -> list[str]:
    """What differs: a line for each pair of types that tensors are of here and there, then the first tensors."""
    problems, equal, total_bytes, count = [], 0, 0, 0
    of_types: dict[tuple[torch.dtype, torch.dtype], list[str]] = {}
    changed_of_types: Counter[tuple[torch.dtype, torch.dtype]] = Counter()
    for tensor, values in ours:
        count += 1
        if not files.has(tensor.name, tensor.shape):
            problems.append(f"{tensor.name}: in {source}, but not in {files.path}")
            continue
        stored = files.copy(tensor.name, tensor.shape)
        problem = difference(tensor.name, values, source, stored, files.path)
        types = (values.dtype, stored.dtype)
        if values.dtype != stored.dtype:
            of_types.setdefault(types, []).append(tensor.name)
            changed_of_types[types] += problem is not None
        elif not problem:
            equal += 1
            total_bytes += values.nbytes
        if problem:
            problems.append(problem)
    print(f"weights: {equal} tensors of {count} are equal, {total_bytes} bytes")
    said = []
    for (here, there), names in of_types.items():
        which = names[0] if len(names) == 1 else f"{len(names)} of {count} tensors"
        line = f"{which}: {here} in {source}, {there} in {files.path}; compared in {torch.promote_types(here, there)}: "
        said.append(line.replace("torch.", "") + f"{changed_of_types[here, there] or 'none'} differ")
    return said + _first(problems)


def _first(problems: list[str]) -> list[str]:
    rest = len(problems) - MOST_NAMED
    return problems[:MOST_NAMED] + ([f"and {rest} more"] if rest > 0 else [])


def difference(name: str, ours: Tensor, source: Path, theirs: Tensor, other: Path) -> str | None:
    """How many values of a tensor of one shape differ from another's; None where none does.

    Compared byte by byte, tensors of two types in the wider one, which holds the values of both.
    """
    wider = torch.promote_types(ours.dtype, theirs.dtype)
    differ = _unequal(ours.to(wider), theirs.to(wider))
    return f"{name}: {differ} of {theirs.numel()} values differ between {source} and {other}" if differ else None


def _unequal(ours: Tensor, theirs: Tensor) -> int:
    """Values of two tensors of one shape and type that are not the same bytes: 0 and -0 are not."""
    one, other = (tensor.flatten().contiguous().view(torch.uint8) for tensor in (ours, theirs))
    if torch.equal(one, other):
        return 0
    return int((one != other).view(-1, ours.element_size()).any(1).sum())


def _leftovers(files: HfFiles, arch: Architecture) -> list[str]:
    """Tensors of a folder that the model has no place for, and a tied model's head that is no copy."""
    problems = [f"{name}: in {files.path}, but no part of {arch.name}" for name in unknown_tensors(files, arch)]
    return problems + _stored_head(files, arch)


def _stored_head(files: HfFiles, arch: Architecture) -> list[str]:
    """A tied model may have a stored output layer, but no other than the embedding."""
    if not other_head(files, arch):
        return []
    return [f"{HEAD}: stored and different in {files.path}, though config.json ties it to the embedding"]


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
        where = next((place for place in (name, in_memory_name(name)) if place in files.file_of), None)
        if where is None:
            problems.append(f"{name}: exported, but not in {files.path}")
            continue
        missing.discard(where)
        stored = files.whole(where)
        back = tensor.to(device="cpu", dtype=stored.dtype).contiguous()
        if back.shape != stored.shape:
            problems.append(f"{name}: shape {list(back.shape)} came back, {list(stored.shape)} is stored")
        elif changed := _unequal(back, stored):
            problems.append(f"{name}: {changed} of {stored.numel()} values came back changed")
        else:
            equal += 1
            total_bytes += stored.nbytes
    if arch.tied:
        missing.discard(HEAD)  # the embedding's copy: load_hf saw to it
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
            model=[chunk.eval() for chunk in model],
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
    return Chunks(build_model(arch, layout, dtype)), arch, world
