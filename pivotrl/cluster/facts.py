"""What one node has: GPUs and their links, free disk, versions. Each read on the node itself."""

import os
import shutil
import socket
import tempfile
from dataclasses import dataclass, field
from pathlib import Path


@dataclass
class Node:
    """One node of the job. Bandwidths and the clock are measured against the others, and filled in later."""

    name: str
    gpus: list[tuple[str, int]] = field(default_factory=list)
    """Name and memory in MiB of each GPU."""
    nvlinks: list[int] = field(default_factory=list)
    """Active NVLinks of each GPU."""
    free_gib: dict[str, float | str] = field(default_factory=dict)
    """What a folder is for -> free space, or why nothing can be written there."""
    versions: dict[str, str] = field(default_factory=dict)
    """Package -> version; and `git`, the commit of this code."""
    clock_seconds: float = 0.0
    """How far its clock is before the first node's."""
    node_gbps: float | None = None
    """Bus bandwidth of an all-reduce over its own ranks, GB/s; None with one rank."""
    link_gbps: dict[str, float] = field(default_factory=dict)
    """Other node -> the same over the ranks of both."""


def name_of_node() -> str:
    """As Slurm calls it, else as it calls itself."""
    return os.environ.get("SLURMD_NODENAME") or socket.gethostname()


def look(folders: dict[str, str]) -> Node:
    """What this node has, and how much free space these folders (what for -> path) have."""
    from pivotrl.policy.checkpoint_run import git_revision, versions

    gpus, nvlinks = _gpus()
    return Node(
        name=name_of_node(),
        gpus=gpus,
        nvlinks=nvlinks,
        free_gib={name: _free_gib(Path(folder)) for name, folder in folders.items()},
        versions=versions() | {"git": git_revision() or "unknown"},
    )


def _gpus() -> tuple[list[tuple[str, int]], list[int]]:
    """By NVML, which tells more than CUDA does; nothing where CUDA finds no GPU that works."""
    from pivotrl.policy import device

    if device.current().kind == "cpu":
        return [], []
    import pynvml

    pynvml.nvmlInit()
    try:
        handles = [pynvml.nvmlDeviceGetHandleByIndex(index) for index in range(pynvml.nvmlDeviceGetCount())]
        kinds = [
            (str(pynvml.nvmlDeviceGetName(handle)), pynvml.nvmlDeviceGetMemoryInfo(handle).total >> 20)
            for handle in handles
        ]
        return kinds, [_active_links(handle) for handle in handles]
    finally:
        pynvml.nvmlShutdown()


def _active_links(handle: object) -> int:
    import pynvml

    active = 0
    for link in range(pynvml.NVML_NVLINK_MAX_LINKS):
        try:
            active += pynvml.nvmlDeviceGetNvLinkState(handle, link) == pynvml.NVML_FEATURE_ENABLED
        except pynvml.NVMLError:  # a GPU has fewer links than the most that there are, or none
            break
    return active


def _free_gib(folder: Path) -> float | str:
    """Free GiB in an existing folder, or what the attempt to write there says."""
    try:
        with tempfile.TemporaryFile(dir=folder):
            pass
        return shutil.disk_usage(folder).free / (1 << 30)
    except OSError as error:
        return f"{folder}: {error.strerror or error}"
