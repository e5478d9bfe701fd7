"""Look at every node before a job starts on it, and name the one that is not fit.

    srun ... torchrun ... -m pivotrl.cluster.preflight --folder OUTPUT

One process a GPU, as the job will have. Rank 0 prints a line for each node and, where something is wrong, one line for
each fault with the node's name and the number; then it exits 2. Limits are read from PREFLIGHT_* (slurm/env.sh).
"""

import argparse
import os
import sys
import time
from datetime import timedelta
from pathlib import Path
from statistics import median
from typing import Any

from pivotrl.cluster.facts import Node, look
from pivotrl.cluster.judge import Limits, problems
from pivotrl.command import run_command

_SECONDS = 300
_ROUNDS = 5


def survey(folders: dict[str, str], use_gpu: bool) -> list[Node]:
    """Facts of every node, their clocks and bandwidths, on every rank (collective; the default group is gloo's)."""
    import torch.distributed as dist

    from pivotrl.cluster import bandwidth
    from pivotrl.policy import device

    local_rank, rank = int(os.environ["LOCAL_RANK"]), dist.get_rank()
    mine = (int(os.environ["GROUP_RANK"]), look(folders) if local_rank == 0 else None)
    everyone: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(everyone, mine)
    nodes = [node for _, node in sorted((place, node) for place, node in everyone if node is not None)]
    members = [[r for r, (place, _) in enumerate(everyone) if place == index] for index in range(len(nodes))]
    for node, seconds in zip(nodes, _clocks([ranks[0] for ranks in members])):
        node.clock_seconds = seconds
    if use_gpu and not all(node.gpus for node in nodes):
        return nodes  # NCCL cannot start; that is fault enough
    here = device.current()
    num_bytes = (256 if here.kind == "cuda" else 4) << 20
    measured: dict[tuple[int, int], float] = {}
    for pairs in [[(index, index) for index in range(len(nodes))], *bandwidth.rounds(len(nodes))]:
        for first, second in pairs:
            ranks = sorted({*members[first], *members[second]})
            group = dist.new_group(ranks, timedelta(seconds=_SECONDS), backend=here.backend)
            if rank in ranks and len(ranks) > 1:
                measured[first, second] = bandwidth.measure(group, num_bytes, here.torch_device)
        dist.barrier()
    dist.all_gather_object(everyone, measured)
    for (first, second), gbps in {pair: gbps for part in everyone for pair, gbps in part.items()}.items():
        if first == second:
            nodes[first].node_gbps = gbps
        else:
            nodes[first].link_gbps[nodes[second].name] = nodes[second].link_gbps[nodes[first].name] = gbps
    return nodes


def _clocks(firsts: list[int]) -> list[float]:
    """Seconds that the clock of each of these ranks is before the first one's: the median of some looks, each right
    after a barrier, which all leave within milliseconds."""
    import torch.distributed as dist

    looks = []
    for _ in range(_ROUNDS):
        dist.barrier()
        now: list[Any] = [None] * dist.get_world_size()
        dist.all_gather_object(now, time.time())
        looks.append([now[rank] - now[firsts[0]] for rank in firsts])
    return [median(column) for column in zip(*looks)]


def describe(node: Node) -> str:
    """One line for people."""
    words = [node.name, f"{len(node.gpus)} GPUs" + (f" ({node.gpus[0][0]})" if node.gpus else "")]
    words += [f"NVLinks {min(node.nvlinks)}"] if node.nvlinks else []
    words += [f"within {node.node_gbps:.1f} GB/s"] if node.node_gbps is not None else []
    words += [f"to {other} {gbps:.1f} GB/s" for other, gbps in node.link_gbps.items()]
    words += [f"clock {node.clock_seconds:+.2f} s"]
    words += [f"{name} {free if isinstance(free, str) else f'{free:.0f} GiB'}" for name, free in node.free_gib.items()]
    return "  ".join(words)


def _setting(name: str, default: float) -> float:
    text = os.environ.get(f"PREFLIGHT_{name}") or str(default)
    try:
        return float(text)
    except ValueError:
        raise ValueError(f"PREFLIGHT_{name} is {text!r}: write a number") from None


def check(folder: str) -> None:
    """Raises ValueError on rank 0 where a node is not fit."""
    import torch.distributed as dist

    use_gpu = os.environ.get("PIVOTRL_DEVICE") != "cpu"  # what was asked for: a node may fail to have it
    folders = {"output": folder, "temporary": os.environ.get("TMPDIR", "/tmp"), "shared-memory": "/dev/shm"}
    names = {"output": "OUTPUT_GIB", "temporary": "TMP_GIB", "shared-memory": "SHM_GIB"}
    limits = Limits(
        gpus=int(os.environ["LOCAL_WORLD_SIZE"]) if use_gpu else 0,
        node_gbps=_setting("NODE_GBPS", 0),
        link_gbps=_setting("LINK_GBPS", 0),
        clock_seconds=_setting("CLOCK_SECONDS", 2),
        free_gib={name: _setting(setting, 0) for name, setting in names.items()},
    )
    started = time.monotonic()
    # Gloo, whatever the nodes have: that a node has no GPU is something to find out.
    dist.init_process_group("gloo", timeout=timedelta(seconds=_SECONDS))
    try:
        nodes = survey(folders, use_gpu)
        if dist.get_rank() == 0:
            print("\n".join(f"preflight: {describe(node)}" for node in nodes), flush=True)
        dist.barrier()
    finally:
        dist.destroy_process_group()
    found = problems(nodes, limits)
    if os.environ["RANK"] != "0":
        return  # one rank is enough to end the job, and to say why
    if found:
        raise ValueError("\n  ".join([f"{len(found)} faults; no step was run", *found]))
    print(f"preflight: {len(nodes)} nodes are fit ({time.monotonic() - started:.1f} s)", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", required=True, help="the run's output folder: is there room?")
    arguments = parser.parse_args()
    if "RANK" not in os.environ:
        parser.error("start it under torchrun, as slurm/node.sh does")
    return run_command("preflight", ["-m", "pivotrl.cluster.preflight"], 1, lambda: check(str(Path(arguments.folder))))


if __name__ == "__main__":
    sys.exit(main())
