"""Run by `test_convert.py`: runs convert_hf several times in one process, with the map broken in some way if asked to.

Where both directions of the map are broken alike, the bytes survive the round trip and only the logits can tell.
Prints one JSON line for each run: its exit code and what it wrote to stderr.

usage: commands_worker.py STEPS   where STEPS is JSON: [[name of a mutation, [argument, ...]], ...]
"""

import contextlib
import importlib.util
import io
import json
import sys
from dataclasses import replace
from pathlib import Path

import torch

from pivotrl.policy import export, mapping, parallel, weights

REPOSITORY = Path(__file__).resolve().parents[2]


def reorder(kind: str, order: tuple[int, ...]):
    """`join` and `split` that take the parts of one kind of parameter in another order."""

    def join(param, shards, arch):
        if param.join != kind:
            return mapping.join(param, shards, arch)
        per_head = [x.unflatten(0, (arch.kv_heads if kind == "qkv" else 1, -1)) for x in shards]
        return torch.cat([per_head[i] for i in order], dim=1).flatten(0, 1)

    def split(param, tensor, arch):
        if param.join != kind:
            return mapping.split(param, tensor, arch)
        heads = arch.kv_heads if kind == "qkv" else 1
        sizes = [part.shape[0] // heads for part in param.parts]
        pieces = tensor.unflatten(0, (heads, -1)).split([sizes[i] for i in order], dim=1)
        found = dict(zip(order, pieces))
        return [found[i] if kind == "qkv" else found[i][0] for i in range(len(order))]

    return join, split


def one_after_another():
    """`join` and `split` that do not interleave q, k and v by key-value head."""

    def join(param, shards, arch):
        return torch.cat(shards) if param.join == "qkv" else mapping.join(param, shards, arch)

    def split(param, tensor, arch):
        if param.join != "qkv":
            return mapping.split(param, tensor, arch)
        pieces = tensor.split([part.shape[0] for part in param.parts])
        return [piece.unflatten(0, (arch.kv_heads, -1)) for piece in pieces]

    return join, split


def swapped_norms(arch, layout):
    """The map with q's norm for k's."""
    params = mapping.params_of_rank(arch, layout)
    swap = {"q_norm": "k_norm", "k_norm": "q_norm"}
    changed = []
    for param in params:
        name = param.parts[0].name
        other = next((name.replace(a, b) for a, b in swap.items() if a in name), name)
        changed.append(replace(param, parts=(replace(param.parts[0], name=other), *param.parts[1:])))
    return changed


ORIGINAL = (weights.join, export.split, weights.params_of_rank)
MUTATIONS = {
    "none": ORIGINAL,
    "gate and up swapped": (*reorder("cat", (1, 0)), ORIGINAL[2]),
    "k and v swapped": (*reorder("qkv", (0, 2, 1)), ORIGINAL[2]),
    "k before q": (*reorder("qkv", (1, 0, 2)), ORIGINAL[2]),
    "q, k, v not interleaved": (*one_after_another(), ORIGINAL[2]),
    "q and k norms swapped": (*ORIGINAL[:2], swapped_norms),
    "gate and up swapped on the way out": (ORIGINAL[0], reorder("cat", (1, 0))[1], ORIGINAL[2]),
}


def main() -> None:
    spec = importlib.util.spec_from_file_location("convert_hf", REPOSITORY / "tools" / "convert_hf.py")
    command = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(command)
    for mutation, argv in json.loads(sys.argv[1]):
        weights.join, export.split, weights.params_of_rank = MUTATIONS[mutation]
        export.params_of_rank = weights.params_of_rank
        said = io.StringIO()
        with contextlib.redirect_stderr(said):
            code = command.main(argv)
        with contextlib.suppress(AssertionError):  # it stopped before it made groups
            parallel.destroy()
        print("RESULT " + json.dumps([code, said.getvalue()]), flush=True)


if __name__ == "__main__":
    main()
