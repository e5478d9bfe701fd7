"""Reading `.metadata`, the table of contents of a `torch_dist` checkpoint, without running what it may hold.

The file is a pickle, and torch and Megatron unpickle whatever it says: a checkpoint from elsewhere could run a program,
and its checksums, which are no signatures, would be right. Here it may only name what such a table consists of. It is
read before anything else reads it.
"""

import pickle
from pathlib import Path
from typing import Any

import torch

_MODULES = (
    "torch.distributed.checkpoint.metadata",
    "torch.distributed.checkpoint.planner",
    "torch.distributed.checkpoint.filesystem",
    "megatron.core.dist_checkpointing.",
    "pathlib",
    "collections",
)
"""Whose own classes may be named; a dot at the end takes in the modules below."""


def read_contents(path: Path) -> Any:
    """torch.distributed.checkpoint's Metadata.

    Raises:
        ValueError: the file is not a table of contents, or names something that has no place in one.
    """
    try:
        with path.open("rb") as file:
            contents = _Unpickler(file).load()
        shards = [info.relative_path for info in contents.storage_data.values()]
    except Exception as error:  # a damaged pickle can raise anything
        raise ValueError(f"{path}: not a table of contents of a checkpoint ({error!r:.200})") from error
    for name in shards:
        if Path(name).name != name:
            raise ValueError(f"{path}: it names {name!r:.80}, which is not a file of the checkpoint's folder")
    return contents


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        known = module in _MODULES or any(known[-1] == "." and module.startswith(known) for known in _MODULES)
        if "." not in name and (known or module == "torch" or (module, name) == ("torch.serialization", "_get_layout")):
            found = super().find_class(module, name)
            own = isinstance(found, type) and found.__module__.startswith(module)
            if (own and known) or isinstance(found, torch.dtype) or found is torch.Size or name == "_get_layout":
                return found
        raise pickle.UnpicklingError(f"it names {module}.{name}, which has no place in one")
