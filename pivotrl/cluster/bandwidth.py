"""How fast the ranks of a node, and of two neighbouring nodes, add up a tensor. NCCL on GPUs, gloo on CPUs."""

import time
from typing import Any

import torch
import torch.distributed as dist


def bus_gbps(num_ranks: int, num_bytes: int, seconds: float) -> float:
    """GB/s that each rank's link carries in an all-reduce by a ring, as nccl-tests counts it: 2 (n - 1) / n of the
    bytes in that time."""
    return 2 * (num_ranks - 1) / num_ranks * num_bytes / seconds / 1e9


def measure(group: Any, num_bytes: int, device: torch.device, repeats: int = 5) -> float:
    """Bus bandwidth of an all-reduce over `group`, GB/s, the best of `repeats` after one to warm up (collective)."""
    data = torch.zeros(num_bytes // 4, device=device)
    best = float("inf")
    for repeat in range(repeats + 1):
        _settle(device)
        started = time.perf_counter()
        dist.all_reduce(data, group=group)
        _settle(device)
        if repeat:
            best = min(best, time.perf_counter() - started)
    return bus_gbps(dist.get_world_size(group), num_bytes, best)


def rounds(num_nodes: int) -> list[list[tuple[int, int]]]:
    """Pairs of neighbours on a ring of nodes, in rounds in which no node is asked twice."""
    pairs = [(node, (node + 1) % num_nodes) for node in range(num_nodes)]
    if num_nodes <= 2:
        return [pairs[: num_nodes - 1]]
    last = pairs.pop() if num_nodes % 2 else None
    return [pairs[::2], pairs[1::2], *([[last]] if last else [])]


def _settle(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
