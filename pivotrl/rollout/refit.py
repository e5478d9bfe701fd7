"""The policy's weights into the engine, in place, and the proof that they arrived.

Every rank's engine receives the slices that it needs, and nothing else, from ranks that own them (`transfers.py` plans,
`transport.py` moves, `receiver.py` lands). No rank ever holds a whole copy.
"""

import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import torch
from torch import Tensor

from pivotrl.policy import device
from pivotrl.policy.shards import Block, Shape, tensor_shapes
from pivotrl.rollout import proof, transport
from pivotrl.rollout.engine import Engine
from pivotrl.rollout.inventory import find_landings
from pivotrl.rollout.manifest import Manifest, agree
from pivotrl.rollout.needs import EngineLayout, needs_of_rank
from pivotrl.rollout.plan import RefitError, make_plan
from pivotrl.rollout.receiver import Receiver
from pivotrl.rollout.transfers import Transfers, make_rounds, make_transfers

__all__ = ["RefitError", "RefitReport", "prove", "refit"]

_SMALLEST_REGION = 1 << 16


class Shards(transport.Source, Protocol):
    """`policy.shards.Shards`, or anything that owns weights."""

    stages: int
    """Pipeline stages."""

    def blocks(self, rank: int) -> Sequence[Block]:
        """What a rank owns (pure)."""
        ...

    def check(self, block: Block) -> str | None:
        """What is wrong with a live tensor of this rank's blocks."""
        ...


class WeightSource(Protocol):
    """What a refit needs from the trainer: `policy.step.Policy`, or anything with its weights."""

    arch: Any
    """`policy.architecture.Architecture`, from which names and shapes follow."""
    shards: Shards

    def score(self, token_ids: list[int]) -> Tensor:
        """Log-prob of every token after the first: float32 [len(token_ids) - 1] (collective)."""
        ...


@dataclass(frozen=True, slots=True)
class RefitReport:
    seconds: float
    """In all, proof included."""
    proof_seconds: float
    """Of comparing checksums and scoring the canary."""
    tensors: int
    """Tensors moved, an MoE layer's experts counted as two."""
    bytes: int
    """Bytes of the whole tensors, each once."""
    landed_bytes: int
    """Bytes that this rank's engine took."""
    remote_bytes: int
    """Of these, bytes that came from other ranks."""
    buffer_bytes: int
    """Of the two buffers."""
    canary_error: float
    """Largest gap between an engine's and the trainer's canary log-probs over all ranks."""

    @property
    def gb_per_second(self) -> float:
        """Of this rank's engine, proof left out."""
        return self.landed_bytes / 1e9 / (self.seconds - self.proof_seconds)

    def metrics(self) -> dict[str, float]:
        """What a step logs."""
        return {
            "refit_seconds": self.seconds,
            "refit_gb": self.landed_bytes / 1e9,
            "refit_gb_per_second": self.gb_per_second,
            "canary_error": self.canary_error,
        }


@dataclass(frozen=True, slots=True)
class Route:
    """What is made once for a policy and an engine."""

    arch: Any
    shapes: Mapping[str, Shape]
    transfers: Transfers
    receiver: Receiver
    manifest: Manifest
    moving: transport.Transport


def refit(policy: WeightSource, engine: Engine) -> RefitReport:
    """Bring the engine to the policy's weights and prove it (collective over the world). An engine that slept wakes:
    its weights' memory before they are written, the cache once the checksums agree, for the canary.

    The plan is made at an engine's first refit, from names and shapes. Before anything is sent, at every refit, every
    rank holds its live tensors against it, and all ranks compare their plans (`manifest.py`).

    Raises:
        RefitError: on every rank: a tensor is missing, unknown or of another shape or type; bytes changed on their way;
            or the canary's log-probs are not the trainer's within `rollout.canary_tolerance`. The message names it. The
            engine may be half written: do not sample from it.
        ValueError: `rollout.refit_buffer_mib` is too small for this model.
    """
    start = time.perf_counter()
    route = engine.refit_route
    if route is None or route.arch != policy.arch:
        route = engine.refit_route = make_route(policy, engine)
    else:
        agree(engine, route.manifest.difference(policy.shards), route.manifest)
    plan = route.transfers
    route.receiver.forget()
    engine.wake_weights()
    with torch.no_grad():
        if engine.blank:
            route.receiver.blank()
        sums = route.moving.run(policy.shards, keep=device.current().keeps_buffers)
    engine.reset_prefix_cache()
    if sums.is_cuda:
        torch.cuda.synchronize()
    moved_at = time.perf_counter()
    proof.check_sums(plan, sums)
    if engine.blank:
        proof.check_filled(engine.model)
        engine.blank = False
    engine.weights = proof.fingerprint(sums)
    engine.wake_cache()
    error = prove(policy, engine)
    end = time.perf_counter()
    mine = [(plan.nbytes(move), move.owner != engine.rank) for move in plan.moves if move.taker == engine.rank]
    return RefitReport(
        seconds=end - start,
        proof_seconds=end - moved_at,
        tensors=len(route.shapes),
        bytes=sum(torch.Size(shape).numel() for shape in route.shapes.values()) * plan.itemsize,
        landed_bytes=sum(size for size, _ in mine),
        remote_bytes=sum(size for size, remote in mine if remote),
        buffer_bytes=route.moving.buffer_bytes,
        canary_error=error,
    )


def make_route(policy: WeightSource, engine: Engine) -> Route:
    """Plan, and hold the plan against this rank's policy and engine (collective over the world).

    Raises:
        RefitError, ValueError: as `refit`, on every rank.
    """
    transfers, receiver, manifest, wrong, staging = None, None, None, None, 0
    try:
        transfers, receiver, manifest = _check_both_sides(policy, engine)
        staging = receiver.staging_bytes(policy.shards.stages)
    except RefitError as error:
        wrong = str(error).removeprefix("refit: ")
    everyones_staging = agree(engine, wrong, manifest, staging)
    region = _region(engine.config.refit_buffer_mib, max(everyones_staging))
    moving = transport.Transport(transfers, make_rounds(transfers, engine.rank, region), receiver, engine.rank)
    return Route(policy.arch, tensor_shapes(policy.arch), transfers, receiver, manifest, moving)


def _check_both_sides(policy: WeightSource, engine: Engine) -> tuple[Transfers, Receiver, Manifest]:
    """The plan, this rank's receiver, and its manifest."""
    landings, pieces = find_landings(engine.model, engine.device_kind)
    counts = {name: landing.elements for name, landing in landings.items()}
    make_plan(tensor_shapes(policy.arch), pieces, counts)
    shards, config = policy.shards, engine.config
    dtype = getattr(torch, engine.dtype)
    if shards.dtype != dtype:
        raise RefitError(f"refit: the policy's weights are {shards.dtype}, the engine's {dtype}")
    blocks = shards.blocks(engine.rank)
    for block in blocks:
        if (wrong := shards.check(block)) is not None:
            raise RefitError(f"refit: {wrong}")
    layout = EngineLayout(config.tensor, config.expert_parallel)
    ranks = range(engine.world_size)
    needed = [needs_of_rank(policy.arch, layout, rank) for rank in ranks]
    receiver = Receiver(landings, pieces)
    planned = {(name, bounds) for name, boxes in needed[engine.rank].items() for bounds in boxes}
    for name, bounds in sorted(planned ^ receiver.needs):
        side = "planned, but not taken" if (name, bounds) in planned else "taken, but not planned"
        raise RefitError(f"refit: {name} {bounds} is {side} by the engine of rank {engine.rank}")
    per_node = int(os.environ.get("LOCAL_WORLD_SIZE", engine.world_size))
    transfers = make_transfers([shards.blocks(rank) for rank in ranks], needed, dtype.itemsize, per_node)
    return transfers, receiver, Manifest(transfers, blocks, engine.model, landings)


def _region(buffer_mib: int, staging: int) -> int:
    """Bytes that a rank may send, and may receive, in a round: two of each, and what landings allocate, fill two
    buffers."""
    region = (2 * buffer_mib * 2**20 - staging) // 4
    if region < _SMALLEST_REGION:
        least = -(-(staging + 4 * _SMALLEST_REGION) // 2**21)
        raise ValueError(
            f"rollout.refit_buffer_mib is {buffer_mib}, of which this engine's packing of one layer leaves too little: "
            f"use {least} or more"
        )
    return region


def prove(policy: WeightSource, engine: Engine) -> float:
    """Score the canary on both sides, on every rank, and compare (collective over the world). Where it is off no more
    than a router's near-tie would put it off, another one decides.

    Returns:
        The largest gap of a log-prob on any rank.

    Raises:
        RefitError: on every rank, if the engine of any rank does not compute what the policy does.
    """
    config = engine.config
    tolerance = proof.TOLERANCES[engine.dtype]
    if config.canary_tolerance is not None:
        tolerance = replace(tolerance, gap=config.canary_tolerance)
    length = min(config.canary_tokens, config.max_model_len - 1)
    for number in range(proof.CANARIES):
        ids = proof.canary_ids(length, policy.arch.vocab, number)
        trainer = policy.score(ids).float().cpu()
        gap = proof.compare(engine.score(ids), trainer, tolerance)
        agreed = proof.agree(engine, gap, tolerance, last=number + 1 == proof.CANARIES)
        if agreed is not None:
            return agreed.largest
        if engine.rank == 0:
            print(
                "refit: some of the canary's log-probs are off, as a router's near-tie puts them off on the rank that "
                f"has it (here {gap.above} of {gap.total}); another canary decides",
                flush=True,
            )
    raise AssertionError("the last canary decides")
