"""Run by test_map_30b.py: ranks of a fake world of 64, one after another, each with its real model on meta tensors.

Prints one JSON line for each rank: its coordinates as Megatron says them, and the whole elements of its parameters.

usage: map_ranks.py CONFIG_FOLDER LAYOUT WORLD_SIZE RANK...   where LAYOUT is JSON, as in a configuration
"""

import functools
import json
import sys
from dataclasses import asdict, replace

import torch
import torch.distributed as dist
from torch.testing._internal.distributed.fake_pg import FakeStore

from pivotrl.policy import device, parallel
from pivotrl.policy.architecture import Architecture
from pivotrl.policy.chunks import Chunks
from pivotrl.policy.config import ParallelConfig
from pivotrl.policy.export import layout_of, match_params
from pivotrl.policy.mapping import join, params_of_rank

META = torch.device("meta")


def on_meta() -> None:
    """Weights live nowhere, and no process group but the fake one is made."""
    device.prepare()
    from megatron.core import parallel_state

    cpu = device.current()
    device.current = lambda: replace(cpu, torch_device=META)
    make = parallel_state.initialize_model_parallel
    parallel_state.initialize_model_parallel = lambda **sizes: make(**{**sizes, "create_gloo_process_groups": False})
    parallel._object_group = lambda *_: None


def check(arch: Architecture, chosen: ParallelConfig, world_size: int, rank: int) -> dict:
    """Build the rank's model, and compare every parameter's shape with what the map joins from its shards."""
    from pivotrl.policy.model import build_model

    dist.init_process_group("fake", store=FakeStore(), rank=rank, world_size=world_size)
    world = parallel.initialize(chosen, seed=0)
    with META:
        model = Chunks(build_model(arch, chosen, torch.bfloat16))
    layout = layout_of(world)
    elements = 0
    for name, (param, live) in match_params(model, params_of_rank(arch, layout)).items():
        parts = layout.etp_size if param.expert else layout.tp_size
        shards = [torch.empty(part.shard_shape(parts), device=META) for part in param.parts]
        assert join(param, shards, arch).shape == live.shape, (name, live.shape)
        elements += live.numel()
    parallel.destroy()
    dist.destroy_process_group()
    return {"rank": rank, "layout": asdict(layout), "elements": elements}


def main() -> None:
    folder, layout, world_size, *ranks = sys.argv[1:]
    arch, chosen = Architecture.from_hf(folder), ParallelConfig(**json.loads(layout))
    on_meta()
    work = functools.partial(check, arch, chosen, int(world_size))
    with device.scope():
        for rank in ranks:
            print("RESULT " + json.dumps(work(int(rank))), flush=True)


if __name__ == "__main__":
    main()
