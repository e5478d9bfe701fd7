"""Seconds of a step's sampling: prefill by floating-point operations, decoding by the bytes that each step reads.

All groups have the mean lengths; an engine takes whole groups, computes each prompt once (prefix caching) and reads it
again for every sample in every decode step. By reading vLLM; not held against a GPU.
"""

import math
from dataclasses import dataclass

from pivotrl.config import RunConfig
from pivotrl.planning.assumptions import Assumptions
from pivotrl.planning.hardware import Cluster
from pivotrl.planning.static import element_size, engine_weight_bytes, kv_bytes_per_token, kv_tokens
from pivotrl.planning.workload import Lengths
from pivotrl.policy.architecture import Architecture
from pivotrl.policy.cost import Cost


@dataclass(frozen=True, slots=True)
class Rollout:
    """One engine's part of a step."""

    engines: int
    sequences: int
    """Of the engine with most."""
    at_once: int
    """Sequences that are decoded together: all, or what `rollout.max_num_seqs` or the cache allows."""
    limited_by: str
    """What stands behind `at_once`."""
    cache_load: int
    """Tokens in the cache when these have their mean lengths, each prompt once."""
    prefill: float
    """Seconds."""
    decode: float
    """Seconds."""
    decode_step: float
    """Seconds of one decode step at `at_once`."""

    @property
    def seconds(self) -> float:
        return self.prefill + self.decode


def rollout_of(
    config: RunConfig, arch: Architecture, cluster: Cluster, lengths: Lengths, assumed: Assumptions
) -> Rollout:
    """How one engine spends a step's sampling."""
    rollout, training = config.rollout, config.training
    prompt, response, size = lengths.prompt, lengths.response, training.group_size
    engines = cluster.ranks // rollout.tensor
    groups = math.ceil(training.pivots_per_step / engines)
    sequences = groups * size
    of_each = prompt // size + response
    in_cache = kv_tokens(config, arch) // of_each
    limits = {
        "all of them": sequences,
        "rollout.max_num_seqs": rollout.max_num_seqs,
        "rollout.kv_cache_gib": max(1, in_cache),
    }
    limited_by, at_once = min(limits.items(), key=lambda item: item[1])

    cost, gpu = Cost.of(arch), cluster.gpu
    forward = cost.token / 3 * prompt + cost.pair / 3.5 * prompt * (prompt + 1) / 2
    prefill = groups * forward / (rollout.tensor * gpu.flops * assumed.prefill_mfu)

    def step(together: int) -> float:
        return _decode_step(config, arch, cluster, lengths, assumed, together)

    longest = min(assumed.tail * response, rollout.max_new_tokens)
    decode = sequences * response / at_once * step(at_once) + (longest - response) * step(max(1, at_once // 8))
    return Rollout(engines, sequences, at_once, limited_by, at_once * of_each, prefill, decode, step(at_once))


def _decode_step(
    config: RunConfig, arch: Architecture, cluster: Cluster, lengths: Lengths, assumed: Assumptions, together: int
) -> float:
    tensor, element = config.rollout.tensor, element_size(config.model.dtype)
    weights = engine_weight_bytes(arch, tensor, element) - element * arch.vocab * arch.hidden // tensor  # no embedding
    if arch.experts:
        experts = element * arch.layers * arch.experts * 3 * arch.hidden * arch.expert_ffn // tensor
        met = 1 - (1 - arch.top_k / arch.experts) ** together  # share of a layer's experts that some token goes to
        weights -= experts * (1 - met)
    cache = together * (lengths.prompt + lengths.response / 2) * kv_bytes_per_token(arch, tensor, element)
    read = (weights + cache) / (cluster.gpu.hbm * assumed.hbm_share)
    cost = Cost.of(arch)
    computed = together * (cost.token / 3 + cost.response / 4) / (tensor * cluster.gpu.flops * assumed.prefill_mfu)
    sync = 2 * arch.layers * assumed.decode_sync if tensor > 1 else 0.0
    return max(read, computed) + sync + assumed.decode_overhead
