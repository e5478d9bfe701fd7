"""Seconds of a step's phases from floating-point operations, bytes and links, at the rates that are assumed.

Nothing overlaps: what a phase computes, reads and sends is added up. Nothing here was held against a GPU.

Legend: T tokens of a micro-batch, H hidden size, e bytes of an activation, k experts a token.
"""

from dataclasses import dataclass

from pivotrl.config import RunConfig
from pivotrl.planning.assumptions import Assumptions
from pivotrl.planning.flops import parameters, pass_flops
from pivotrl.planning.hardware import Cluster
from pivotrl.planning.shards import data_parallel, layout_at, shard_of
from pivotrl.planning.static import element_size, engine_weight_bytes, optimizer_bytes, trainer_bytes
from pivotrl.planning.workload import Lengths, Round, log_prob_passes, work_of
from pivotrl.policy.architecture import Architecture


@dataclass(frozen=True, slots=True)
class Pass:
    """One micro-batch through one pipeline stage, in seconds."""

    compute: float
    tensor: float
    """Tensor-parallel gathers and scatters."""
    expert: float
    """Dispatch of tokens to their experts and back."""
    pipeline: float
    """To the next stage and back."""

    @property
    def total(self) -> float:
        return self.compute + self.tensor + self.expert + self.pipeline


def train_parts(
    config: RunConfig, arch: Architecture, cluster: Cluster, lengths: Lengths, assumed: Assumptions
) -> dict[str, float]:
    """Seconds of all updates on one batch: compute, links, bubble, gradients and optimizer."""
    parallel = config.parallel
    work = work_of(config, arch, lengths, data_parallel(parallel, cluster.ranks)[0])
    passes = [_pass(config, arch, cluster, round_, assumed, backward=True) for round_ in work.rounds]
    busy = sum(one.total for one in passes)
    bubble = (parallel.pipeline - 1) / parallel.virtual_pipeline * busy / len(passes)
    parts = {
        "compute": sum(one.compute for one in passes),
        "tensor": sum(one.tensor for one in passes),
        "expert": sum(one.expert for one in passes),
        "pipeline": sum(one.pipeline for one in passes) + bubble,
        "gradients": _gradient_seconds(config, arch, cluster, assumed),
        "optimizer": _optimizer_seconds(config, arch, cluster, assumed),
    }
    return {name: seconds * config.training.updates_per_batch for name, seconds in parts.items()}


def log_prob_seconds(
    config: RunConfig, arch: Architecture, cluster: Cluster, lengths: Lengths, assumed: Assumptions
) -> float:
    """Seconds of the passes without a gradient, where a run has any."""
    work = work_of(config, arch, lengths, data_parallel(config.parallel, cluster.ranks)[0])
    passes = [_pass(config, arch, cluster, round_, assumed, backward=False).total for round_ in work.rounds]
    return log_prob_passes(config) * (sum(passes) + (config.parallel.pipeline - 1) * passes[0])


def refit_seconds(config: RunConfig, arch: Architecture, cluster: Cluster, assumed: Assumptions) -> float:
    """An engine's part of the weights over the link to the ranks that own them, as if a rank owned none itself; every
    byte is packed, landed and summed at both ends (five passes). `refit_traffic` has the plan itself."""
    parallel = config.parallel
    size = engine_weight_bytes(arch, config.rollout.tensor, element_size(config.model.dtype))
    owners = max(parallel.tensor, parallel.expert * parallel.expert_tensor)
    link = cluster.link(owners if parallel.pipeline == 1 else cluster.ranks)  # stages lie far apart
    return size / (link * assumed.link_share) + 5 * size / cluster.gpu.hbm + assumed.refit_seconds


def save_seconds(config: RunConfig, arch: Architecture, cluster: Cluster, assumed: Assumptions) -> float:
    """A checkpoint's seconds, spread over the steps between two; written in the background, those of the copy."""
    if not config.checkpoint.every:
        return 0.0
    element = element_size(config.model.dtype)
    size = parameters(arch) * (element + optimizer_bytes(config.optimizer, element))
    rate = cluster.nodes * assumed.disk
    if config.checkpoint.background:
        rate = cluster.ranks * cluster.gpu.pcie * assumed.link_share
    return size / rate / config.checkpoint.every


def offload_seconds(config: RunConfig, arch: Architecture, cluster: Cluster, assumed: Assumptions) -> float:
    """The optimizer's way to the host and back, with `training.offload`."""
    if not config.training.offload:
        return 0.0
    moved = trainer_bytes(config, arch, cluster.ranks, 0).optimizer
    return 2 * moved / (cluster.gpu.pcie * assumed.link_share)


def _pass(
    config: RunConfig, arch: Architecture, cluster: Cluster, work: Round, assumed: Assumptions, backward: bool
) -> Pass:
    """Forward, and with `backward` the recomputation and the backward pass too."""
    parallel, element = config.parallel, element_size(config.model.dtype)
    again = config.model.recompute if backward else "none"
    in_layers, in_head = pass_flops(arch, work, again, backward, assumed.expert_imbalance)
    flops = in_layers / parallel.pipeline + in_head  # of the last stage, which the others wait for
    layers = arch.layers // parallel.pipeline
    local = work.tokens / parallel.tensor
    row = work.tokens * arch.hidden * element
    blocks = 1 if arch.experts else 2  # an MoE layer's experts are not tensor-parallel with the attention's ranks
    moved = (5 if backward else 2) + (2 if again == "full" else 0)
    tensor = blocks * moved * row * (parallel.tensor - 1) / parallel.tensor * layers
    spread = parallel.expert * parallel.expert_tensor
    sent = 0.0
    if arch.experts:
        rows = local * arch.top_k * arch.hidden * element * assumed.expert_imbalance
        sent = (2 * (2 if backward else 1) + (2 if again != "none" else 0)) * rows * (spread - 1) / spread * layers
    passed = (2 if backward else 1) * local * arch.hidden * element if parallel.pipeline > 1 else 0.0
    share = assumed.link_share
    return Pass(
        compute=flops / parallel.tensor / (cluster.gpu.flops * assumed.train_mfu),
        tensor=tensor / (cluster.link(parallel.tensor) * share),
        expert=sent / (cluster.link(spread) * share),
        pipeline=passed / (cluster.gpu.network * share),
    )


def _gradient_seconds(config: RunConfig, arch: Architecture, cluster: Cluster, assumed: Assumptions) -> float:
    """Reduce-scatter of float32 gradients and all-gather of weights, or an all-reduce, on the fullest stage."""
    parallel, distributed = config.parallel, config.optimizer.distributed
    element = element_size(config.model.dtype)
    shard = shard_of(arch, layout_at(parallel, 0), cluster.ranks, config.model.freeze_router, distributed)
    seconds = 0.0
    for numel, ranks in zip((shard.dense, shard.experts), data_parallel(parallel, cluster.ranks), strict=True):
        between = cluster.ranks // parallel.pipeline if ranks > 1 else 1  # they are spread over a whole stage
        sent = numel * (ranks - 1) / ranks * (4 + element if distributed else 2 * 4)
        seconds += sent / (cluster.link(between) * assumed.link_share)
    return seconds


def _optimizer_seconds(config: RunConfig, arch: Architecture, cluster: Cluster, assumed: Assumptions) -> float:
    """Reads gradient and state, writes state and weight: where the state lives, at that memory's rate."""
    held, element = trainer_bytes(config, arch, cluster.ranks, 0), element_size(config.model.dtype)
    touched = held.trained * (4 + 2 * optimizer_bytes(config.optimizer, element) + element)
    on_host = touched * config.optimizer.offload
    return (touched - on_host) / (cluster.gpu.hbm * assumed.hbm_share) + on_host / assumed.host_rate
