"""Published numbers of the GPUs that a run is planned for. Nothing in this file was measured by us.

Sources: "NVIDIA H100 Tensor Core GPU" and "NVIDIA H200 Tensor Core GPU" data sheets, SXM5 columns (dense bf16 rate,
which is half the printed one "with sparsity"; memory bandwidth; NVLink, whose printed 900 GB/s are both directions
together; PCIe gen 5 x16, printed as 128 GB/s in both). The network is that of the DGX H100 and H200 user guides: one
400 Gb/s ConnectX-7 port for each GPU. The memory is what nvidia-smi lists as total: 81,559 MiB and 143,771 MiB, as
tabulated in "Why does an NVIDIA H100 80GB card offer 85.52 GB?" (thundergolfer.com, 2025).
"""

from dataclasses import dataclass

GIB = 2**30


@dataclass(frozen=True, slots=True)
class Gpu:
    """One GPU and its links; bytes per second are of one direction."""

    name: str
    flops: float
    """Dense bf16 floating-point operations per second."""
    hbm: float
    """Bytes per second of its memory."""
    nvlink: float
    """Bytes per second to the other GPUs of its node."""
    network: float
    """Bytes per second to other nodes."""
    pcie: float
    """Bytes per second to the CPU's memory."""
    memory: int
    """Bytes that a process can ask for, the CUDA context included."""


H100 = Gpu("H100", 989.4e12, 3.35e12, 450e9, 50e9, 64e9, 81_559 * 2**20)
H200 = Gpu("H200", 989.4e12, 4.8e12, 450e9, 50e9, 64e9, 143_771 * 2**20)
GPUS = {"h100": H100, "h200": H200}


@dataclass(frozen=True, slots=True)
class Cluster:
    """The GPUs of a run."""

    gpu: Gpu
    nodes: int
    gpus_per_node: int

    @property
    def ranks(self) -> int:
        """One process for each GPU."""
        return self.nodes * self.gpus_per_node

    def link(self, ranks: int) -> float:
        """Bytes per second between `ranks` neighbouring ranks: inside a node where they fit into one."""
        return self.gpu.nvlink if ranks <= self.gpus_per_node else self.gpu.network
