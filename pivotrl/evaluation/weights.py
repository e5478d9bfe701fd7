"""Another policy's weights into a session: read, checked, refitted into the engine, and proved there."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from pivotrl import handover
from pivotrl.evaluation.source import Source, check_architecture, find_source
from pivotrl.policy import checkpoint_files
from pivotrl.policy.agree import together
from pivotrl.policy.weights import load_hf, load_model_weights
from pivotrl.rollout.refit import RefitReport

if TYPE_CHECKING:
    from pivotrl.session import Session


def load_into(session: "Session", source: str) -> RefitReport:
    """Give the session's policy and engine the weights of `source` (collective), whose arrival the refit proves.

    The optimizer's main weights become these too; its moments stay those of the policy before, so train on in a new
    session.

    Args:
        source: as `source.find_source` takes it, relative to the session's `output`.

    Raises:
        ValueError: there is no such policy, it is damaged, or is of another architecture or vocabulary. On every rank,
            before any weight has changed.
        RefitError: the engine does not compute what the policy does.
    """
    policy, world = session.policy, session.world

    def look() -> Source:
        found = find_source(source, session.config.output)
        check_architecture(found, policy.arch)
        if found.kind == "huggingface":
            _check_vocabulary(found.path, session)
        return found

    found = together(world.object_group, look)[world.rank]
    if found.kind == "huggingface":
        load_hf(policy.model, policy.arch, found.path)
    else:
        _check_shapes(found.path, session)
        load_model_weights(found.path, policy.model)
    handover.to_trainer(policy, session.engine)
    policy.optimizer.reload_model_params()
    return handover.to_engine(policy, session.engine)


def _check_vocabulary(folder: Path, session: "Session") -> None:
    """A folder that brings a tokenizer brings the session's: prompts are made by the session's."""
    if not (folder / "tokenizer.json").is_file():
        return
    from transformers import AutoTokenizer

    theirs, ours = AutoTokenizer.from_pretrained(str(folder)).get_vocab(), session.template.tokenizer.get_vocab()
    different = sorted(token for token in theirs.keys() | ours.keys() if theirs.get(token) != ours.get(token))
    if different:
        token = different[0]
        raise ValueError(
            f"{folder}: another vocabulary than model.path's: {len(different)} tokens differ, the first is {token!r} "
            f"(there {theirs.get(token)}, here {ours.get(token)}); evaluate it with a configuration of its own"
        )


def _check_shapes(folder: Path, session: "Session") -> None:
    """The checkpoint's tensors are those of the session's model, as its table of contents says (collective)."""
    from megatron.core.dist_checkpointing.mapping import ShardedObject, ShardedTensorFactory

    policy = session.policy

    def shards(entry: Any) -> list[Any]:
        return entry.build() if isinstance(entry, ShardedTensorFactory) else [entry]

    entries = [
        shard
        for entry in policy.model.sharded_state_dict().values()
        if not isinstance(entry, ShardedObject)
        for shard in shards(entry)
    ]

    def look() -> None:
        stored = checkpoint_files.check_complete(folder).state_dict_metadata
        for entry in entries:
            size = tuple(getattr(stored.get(entry.key), "size", ()))
            wanted = tuple(entry.global_shape)
            if entry.allow_shape_mismatch and len(size) == len(wanted):  # rows are padded to the layout
                fits = size[0] >= policy.arch.vocab and size[1:] == wanted[1:]
            else:
                fits = size == wanted
            if not fits:
                found = f"has shape {list(size)}" if size else "is not there"
                raise ValueError(
                    f"{folder}: a checkpoint of another model than model.path, or of an earlier version: {entry.key} "
                    f"{found}, expected {list(wanted)}; evaluate it with a configuration of its own"
                )

    together(session.world.object_group, look)
