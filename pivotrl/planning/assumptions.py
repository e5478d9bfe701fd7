"""What the plan assumes because nothing of it was measured on a GPU. Every report prints these.

They are round numbers, chosen on the careful side; a first run on the cluster replaces them with measured ones.
"""

from dataclasses import dataclass, fields


@dataclass(frozen=True, slots=True)
class Assumptions:
    """Shares of published rates that are reached, seconds that nothing overlaps, and memory that nothing else names."""

    train_mfu: float = 0.30
    """Share of the dense bf16 rate in the layers' matrix products, communication not counted. Published pre-training of
    Qwen3-30B-A3B on H100 reaches 0.21 with all communication in it (Megatron-Bridge performance summary)."""
    prefill_mfu: float = 0.30
    """The same in the engine's prefill."""
    hbm_share: float = 0.60
    """Share of the memory's bandwidth that decoding reaches."""
    link_share: float = 0.70
    """Share of NVLink's and the network's rate that collectives reach; none of it is overlapped with computing."""
    decode_overhead: float = 0.002
    """Seconds of each decode step that are the host's: scheduler, sampling, graph launch."""
    decode_sync: float = 20e-6
    """Seconds of one all-reduce of a decode step over a tensor-parallel engine; two a layer."""
    tail: float = 2.0
    """The longest response of a batch over the mean one: so long do the engines decode, with ever fewer sequences."""
    expert_imbalance: float = 1.3
    """Tokens of the fullest rank's experts over the mean."""
    context_gib: float = 0.8
    """CUDA context, kernels and cuBLAS workspaces of a process."""
    nccl_gib: float = 2.0
    """Buffers of NCCL's communicators."""
    engine_gib: float = 2.0
    """The engine's own activations, CUDA graphs and sampler."""
    fragmentation: float = 0.05
    """Share of everything allocated that the caching allocator loses."""
    margin_gib: float = 4.0
    """Left free where the cache follows from the plan (`planning/sizes.py`): what all of this may be off by."""
    refit_seconds: float = 1.0
    """Seconds of a refit besides the transfer: Python, checksums, the canary."""
    host_rate: float = 25e9
    """Bytes per second of the CPU's memory for each rank of a node, where the CPU's Adam works."""
    disk: float = 2e9
    """Bytes per second that one node writes to the shared file system."""
    verify_seconds: float = 1.0
    """Seconds in which a step's samples are judged."""

    def described(self) -> dict[str, float]:
        """Name and value of each."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def in_words(self) -> list[str]:
        """The same, each with its unit and what it is of, in at most 57 characters."""
        return [
            f"train_mfu {self.train_mfu:.2f} of the GPU's bf16 rate",
            f"prefill_mfu {self.prefill_mfu:.2f} of the GPU's bf16 rate",
            f"hbm_share {self.hbm_share:.2f} of the memory's bandwidth, decoding",
            f"link_share {self.link_share:.2f} of NVLink's and the network's rate",
            f"decode_overhead {self.decode_overhead * 1e3:g} ms of the host a decode step",
            f"decode_sync {self.decode_sync * 1e6:g} us an all-reduce, two a layer",
            f"tail: the longest response is {self.tail:g} x the mean",
            f"expert_imbalance: the fullest rank has {self.expert_imbalance:g} x the mean",
            f"context_gib {self.context_gib:g} GiB a process: CUDA and its kernels",
            f"nccl_gib {self.nccl_gib:g} GiB a rank: NCCL's buffers",
            f"engine_gib {self.engine_gib:g} GiB a rank: the engine's activations, graphs",
            f"fragmentation {self.fragmentation:.2f} of all that is allocated is lost",
            f"margin_gib {self.margin_gib:g} GiB a rank left free by an unset cache",
            f"refit_seconds {self.refit_seconds:g} s a refit besides the transfer",
            f"host_rate {self.host_rate / 1e9:g} GB/s of CPU memory a rank, for its Adam",
            f"disk {self.disk / 1e9:g} GB/s a node, writing checkpoints",
            f"verify_seconds {self.verify_seconds:g} s a step for the verifier",
        ]
