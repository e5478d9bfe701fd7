"""Run by `test_transport.py` on several ranks: real trainers of every layout, engines of plain tensors of every layout.

Prints one JSON line for each job: boxes that did not arrive bit for bit, the most bytes allocated while they travelled,
the bytes of the two buffers, and what a byte that was flipped on its way was reported as.

usage: transport_ranks.py JOBS   where JOBS is JSON: [[folder, {"tensor": 2, ...}, {"tensor": 2, ...}, region], ...]
"""

import gc
import json
import sys
import weakref
from pathlib import Path

import torch
import torch.distributed as dist
from torch.utils._python_dispatch import TorchDispatchMode

from pivotrl.policy import device, parallel
from pivotrl.policy.architecture import Architecture
from pivotrl.policy.chunks import Chunks
from pivotrl.policy.config import ParallelConfig

device.prepare()

from pivotrl.policy.hf_files import HfFiles  # noqa: E402
from pivotrl.policy.mapping import expert_tensors, moe_names  # noqa: E402
from pivotrl.policy.model import build_model  # noqa: E402
from pivotrl.policy.shards import Shards, tensor_shapes  # noqa: E402
from pivotrl.policy.weights import load_hf  # noqa: E402
from pivotrl.rollout import proof, transport  # noqa: E402
from pivotrl.rollout.landings import Landing  # noqa: E402
from pivotrl.rollout.needs import EngineLayout, needs_of_rank  # noqa: E402
from pivotrl.rollout.plan import Piece, RefitError, box  # noqa: E402
from pivotrl.rollout.receiver import Receiver  # noqa: E402
from pivotrl.rollout.transfers import make_rounds, make_transfers, shape_of  # noqa: E402


class Allocations(TorchDispatchMode):
    """The most bytes of new tensors that were alive at a time."""

    def __init__(self):
        super().__init__()
        self.live = self.peak = 0
        self.seen: dict[int, int] = {}

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        known = {one.untyped_storage().data_ptr() for one in torch.utils._pytree.tree_leaves(args) if tensor(one)}
        for one in torch.utils._pytree.tree_leaves(out):
            if not tensor(one):
                continue
            storage = one.untyped_storage()
            pointer, size = storage.data_ptr(), storage.nbytes()
            if size and pointer not in known and pointer not in self.seen:
                self.seen[pointer] = size
                self.live += size
                self.peak = max(self.peak, self.live)
                weakref.finalize(storage, self.gone, pointer)
        return out

    def gone(self, pointer: int) -> None:
        self.live -= self.seen.pop(pointer, 0)


def tensor(value: object) -> bool:
    return isinstance(value, torch.Tensor)


def whole_tensors(folder: str, arch: Architecture) -> dict[str, torch.Tensor]:
    """What the Hugging Face files hold, experts stacked."""
    files, found = HfFiles(folder), {}
    for name in tensor_shapes(arch):
        if ".experts." not in name:
            found[name] = files.whole(name)
            continue
        prefix = name.split(moe_names(arch).block)[0]
        singles = [expert_tensors(arch, prefix, expert) for expert in range(arch.experts)]
        parts = [[files.whole(one.name) for one in single] for single in singles]
        if name.endswith("gate_up_proj"):
            found[name] = torch.stack([torch.cat([gate, up]) for gate, up, _ in parts])
        else:
            found[name] = torch.stack([down for _, _, down in parts])
    return found


def flip_first():
    """A `transport.send` that flips one bit of the first message that a rank sends, after it was summed."""
    original, left = transport.send, [1]

    def send(operations: list) -> list:
        for operation in operations:
            if operation.op is dist.isend and left:
                left.clear()
                operation.tensor[0] ^= 1
        return original(operations)

    return send


def check(folder: str, layout: dict, engine: dict, region: int) -> dict:
    arch = Architecture.from_hf(folder)
    chosen = ParallelConfig(**layout)
    world = parallel.initialize(chosen, seed=1)
    model = Chunks(build_model(arch, chosen, torch.float32))
    load_hf(model, arch, folder)
    shards = Shards(model, arch, world, chosen)
    wrong = [text for block in shards.blocks(world.rank) if (text := shards.check(block))]
    ranks = range(world.world_size)
    needed = [needs_of_rank(arch, EngineLayout(**engine), rank) for rank in ranks]
    plan = make_transfers([shards.blocks(rank) for rank in ranks], needed, 4, 2)
    rounds = make_rounds(plan, world.rank, region)
    landings, pieces = {}, []
    for name, boxes in needed[world.rank].items():
        for bounds in boxes:
            key, shape = f"{name}{bounds}", shape_of(bounds)
            landings[key] = Landing(key, torch.full(shape, torch.nan))
            inside = box(*((0, size) for size in shape))
            pieces.append(Piece(name, tensor_shapes(arch)[name], box(*bounds), key, inside))
    receiver = Receiver(landings, pieces)
    gc.collect()
    with Allocations() as allocations, torch.no_grad():
        moving = transport.Transport(plan, rounds, receiver, world.rank)
        buffers = moving.buffer_bytes
        sums = moving.run(shards)
    proof.check_sums(plan, sums)
    truth = whole_tensors(folder, arch)
    for piece in pieces:
        if not torch.equal(landings[piece.target].tensor, truth[piece.source][piece.source_box]):
            wrong.append(piece.target)
    extra = allocations.peak - sums.nbytes  # 16 bytes a transfer, whatever the tensors' sizes
    flipped = ""
    original = transport.send
    if world.rank == 1:
        transport.send = flip_first()
    sums = moving.run(shards)
    transport.send = original
    try:
        proof.check_sums(plan, sums)
    except RefitError as error:
        flipped = str(error)
    sent = any(move.owner == 1 != move.taker for move in plan.moves)
    mine = {"wrong": wrong, "extra": extra, "buffers": buffers, "region": region, "rounds": len(rounds)}
    everyone: list = [None] * world.world_size
    dist.all_gather_object(everyone, mine | {"flipped": flipped, "sent": sent}, group=world.object_group)
    parallel.destroy()
    return {"model": Path(folder).name, "layout": layout, "engine": engine, "ranks": everyone}


def main(jobs: str) -> None:
    dist.init_process_group("gloo")
    for job in json.loads(jobs):
        result = check(*job)
        if dist.get_rank() == 0:
            print("RESULT " + json.dumps(result), flush=True)
    dist.barrier()


if __name__ == "__main__":
    main(sys.argv[1])
