"""Hugging Face weights into a Megatron model and out of it again; `mapping.py` says which is which."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from pivotrl.policy import export, parallel
from pivotrl.policy.architecture import Architecture
from pivotrl.policy.export import layout_of, match_params
from pivotrl.policy.hf_files import EMBEDDING, HfFiles, in_memory_name, read_shard
from pivotrl.policy.mapping import MIXTRAL_MOE, all_tensors, join, moe_names, params_of_rank, stacked_experts

DERIVED = ".rotary_emb.inv_freq"
"""Buffers that old checkpoints carry; they follow from config.json."""
HEAD = "lm_head.weight"
WEIGHT_TYPES = {torch.float64, torch.float32, torch.bfloat16, torch.float16}
"""Types that hold a weight as it is; int8 and float8 are nothing without their scales."""


class Exporter(export.Exporter):
    """`export.Exporter` on the layout that `parallel.initialize` made."""

    def __init__(self, model: Any, arch: Architecture, bucket_bytes: int = export.BUCKET_BYTES) -> None:
        super().__init__(model, arch, parallel.current_world(), bucket_bytes)


def export_hf(model: Any, arch: Architecture, stack_experts: bool = False) -> Iterator[tuple[str, Tensor]]:
    """Every weight, whole, on every rank (collective). Keep an `Exporter` to export the same model often."""
    return Exporter(model, arch).tensors(stack_experts)


def local_tensors(
    model: Any, arch: Architecture, source: HfFiles | Mapping[str, Tensor]
) -> Iterator[tuple[str, Tensor, Tensor]]:
    """For each parameter of this rank: its name, the live parameter, and the source's values for it.

    The source may hold weights or anything else under the same names and shapes, such as gradients.
    """
    layout = layout_of(parallel.current_world())
    for name, (param, live) in match_params(model, params_of_rank(arch, layout)).items():
        part, parts = (layout.etp_rank, layout.etp_size) if param.expert else (layout.tp_rank, layout.tp_size)
        shards = [read_shard(source, hf.name, hf.shape, hf.dim, part, parts) for hf in param.parts]
        values = join(param, shards, arch)
        assert values.shape == live.shape, (name, values.shape, live.shape)
        yield name, live, values


def load_hf(model: Any, arch: Architecture, source: str | Path | Mapping[str, Tensor]) -> None:
    """Fill this rank's model from a Hugging Face folder, reading only the rank's own slices, or from tensors in memory.

    Values are converted to the parameters' type.

    Raises:
        ValueError: a file or tensor is missing, unreadable, of another shape, or unknown to the architecture.
    """
    if isinstance(source, str | Path):
        source = HfFiles(source)
        check_known(source, arch)
    with torch.no_grad():
        for _, live, values in local_tensors(model, arch, source):
            live.copy_(values)


def check_known(files: HfFiles, arch: Architecture) -> None:
    """Stop where a folder holds something else than one value for each weight of the architecture.

    Raises:
        ValueError: a stored tensor is unknown to the architecture, or stands for weights that are there already, or is
            of a type that no weight has.
    """
    unknown = unknown_tensors(files, arch)
    if unknown:
        raise ValueError(
            f"{files.path}: {unknown[0]!r} and {len(unknown) - 1} more tensors are not part of {arch.name} "
            f"with the sizes in config.json"
        )
    for name in files.file_of:
        dtype = files.dtype_of(name)
        if dtype not in WEIGHT_TYPES and not name.endswith(DERIVED):
            raise ValueError(f"{files.path}: {name!r} is {str(dtype)[6:]}: give the unquantized weights")
    _check_stacks(files, arch)
    if other_head(files, arch):
        raise ValueError(
            f"{files.path}: {HEAD!r} is stored and is not the embedding, though config.json ties the two: "
            "set tie_word_embeddings false in config.json, or remove the tensor"
        )


def _check_stacks(files: HfFiles, arch: Architecture) -> None:
    """Stacked experts are as many as the architecture has, and none of them is there once more."""
    for name, stack in stacked_experts(arch).items():
        places = [place for place in {name, in_memory_name(name)} if place in files.file_of]
        places += [alone for alone in _alone(name, arch) if places and alone in files.file_of]
        if len(places) > 1:
            raise ValueError(f"{files.path}: {places[0]!r} and {places[1]!r} are the same weights: remove one of them")
        if places and (found := files.shape_of(places[0])) != list(stack.shape):
            raise ValueError(
                f"{files.path}: {places[0]!r} has shape {found}, but config.json makes it {list(stack.shape)}"
            )


def _alone(stack: str, arch: Architecture) -> list[str]:
    """Names under which the tensors of a stack may be stored one by one."""
    block, names = stack.rsplit(".", 1)[0], moe_names(arch)
    kinds = [names.down] if stack.endswith("down_proj") else [names.gate, names.up]
    found = [f"{block}.{expert}.{kind}.weight" for expert in range(arch.experts) for kind in kinds]
    return list(dict.fromkeys([*found, *map(in_memory_name, found)]))


def other_head(files: HfFiles, arch: Architecture) -> bool:
    """Whether a tied model comes with an output layer that is not its embedding. transformers 5 would use it, vLLM and
    earlier ones would not."""
    if not arch.tied or HEAD not in files.file_of:
        return False
    shape = (arch.vocab, arch.hidden)
    return not torch.equal(files.copy(HEAD, shape), files.copy(EMBEDDING, shape))


def unknown_tensors(files: HfFiles, arch: Architecture) -> list[str]:
    """Stored tensors that the architecture has no place for. A tied model's stored `lm_head.weight` is not one."""
    known = set(all_tensors(arch)) | {HEAD}
    if files.stacked_experts:
        known |= set(stacked_experts(arch))
    if moe_names(arch) is MIXTRAL_MOE:
        known |= {in_memory_name(name) for name in known}
    return sorted(name for name in files.file_of if name not in known and not name.endswith(DERIVED))


def save_model(model: Any, folder: str | Path) -> None:
    """Write the weights alone as a Megatron `torch_dist` checkpoint, with `checksums.json` (collective).

    Args:
        model: the model of this rank.
        folder: must exist and be empty.

    Raises:
        ValueError: a file cannot be written; it is named.
    """
    from pivotrl.policy import checkpoint_write, device

    with device.scope():
        state = {"model": model.sharded_state_dict()}
    checkpoint_write.save(state, Path(folder), parallel.current_world())


def load_model_weights(folder: str | Path, model: Any) -> None:
    """Read the weights out of a `torch_dist` checkpoint of `save_model`, `convert_hf` or a training run (collective).

    The checkpoint may come from any layout. Layers' extra state, which Transformer Engine keeps for fp8, is not read.

    Raises:
        ValueError: the checkpoint is missing, incomplete or of another model.
    """
    from megatron.core.dist_checkpointing.mapping import ShardedObject

    from pivotrl.policy import checkpoint_files, device

    with device.scope():
        state = model.sharded_state_dict()
        tensors = {name: entry for name, entry in state.items() if not isinstance(entry, ShardedObject)}
        loaded = checkpoint_files.load({"model": tensors}, folder)["model"]
    live = dict(model.named_parameters())
    assert loaded.keys() == live.keys(), loaded.keys() ^ live.keys()
    with torch.no_grad():
        for name, values in loaded.items():
            live[name].copy_(values)
