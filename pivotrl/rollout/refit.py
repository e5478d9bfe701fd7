"""The policy's weights into the engine, in place, and the proof that they arrived."""

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Protocol

import torch
from torch import Tensor

from pivotrl.rollout import proof
from pivotrl.rollout.engine import Engine
from pivotrl.rollout.inventory import find_landings
from pivotrl.rollout.landings import Landing
from pivotrl.rollout.plan import Plan, RefitError, Shape, make_plan

__all__ = ["RefitError", "RefitReport", "prove", "refit"]


class WeightSource(Protocol):
    """What a refit needs from the trainer: `policy.step.Policy`, or anything with its weights."""

    arch: Any
    """`policy.architecture.Architecture`, from which the names and shapes of the export follow."""

    def export(self, stack_experts: bool = False) -> Iterator[tuple[str, Tensor]]:
        """Every weight under its Hugging Face name, whole, on every rank (collective)."""
        ...

    def score(self, token_ids: list[int]) -> Tensor:
        """Log-prob of every token after the first: float32 [len(token_ids) - 1] (collective)."""
        ...


@dataclass(frozen=True, slots=True)
class RefitReport:
    seconds: float
    """In all, proof included."""
    proof_seconds: float
    tensors: int
    """Tensors moved, an MoE layer's experts counted as two."""
    bytes: int
    """Bytes of the whole tensors, before this rank's part was taken."""
    canary_error: float
    """Largest gap between an engine's and the trainer's canary log-probs over all ranks."""


@dataclass(frozen=True, slots=True)
class Route:
    """What is made once for a policy and an engine."""

    plan: Plan
    landings: dict[str, Landing]


def refit(policy: WeightSource, engine: Engine) -> RefitReport:
    """Bring the engine to the policy's weights and prove it (collective over the world).

    The plan is made at an engine's first refit, from names and shapes, and checked before anything is written.

    Raises:
        RefitError: a tensor is missing, unknown, of another shape or not what every rank received, or the canary's
            log-probs are not the trainer's within `rollout.canary_tolerance`. The message names it. The engine may be
            half written: do not sample from it.
    """
    start = time.perf_counter()
    if engine.refit_route is None:
        engine.refit_route = _make_route(policy, engine)
    with torch.no_grad():
        sums, moved = _move(policy, engine.refit_route)
    engine.weights = proof.fingerprint(sums)
    engine.reset_prefix_cache()
    moved_at = time.perf_counter()
    error = prove(policy, engine, sums)
    end = time.perf_counter()
    return RefitReport(end - start, end - moved_at, len(sums), moved, error)


def _make_route(policy: WeightSource, engine: Engine) -> Route:
    landings, pieces = find_landings(engine.model, engine.device_kind)
    counts = {name: landing.elements for name, landing in landings.items()}
    return Route(make_plan(exported_shapes(policy.arch), pieces, counts), landings)


def exported_shapes(arch: Any) -> dict[str, Shape]:
    """Names and shapes of `policy.export(stack_experts=True)` for an architecture."""
    from pivotrl.policy.mapping import all_tensors, stacked_experts

    single = {name: tensor for name, tensor in all_tensors(arch).items() if ".experts." not in name}
    return {name: tuple(tensor.shape) for name, tensor in (single | stacked_experts(arch)).items()}


def _move(policy: WeightSource, route: Route) -> tuple[dict[str, int], int]:
    """Copy every exported tensor to its landings. Returns the tensors' checksums and their bytes."""
    plan, landings = route.plan, route.landings
    open_landings: dict[str, Tensor] = {}
    waiting = dict(plan.pieces_of_target)
    sums: dict[str, int] = {}
    moved = 0
    for name, tensor in policy.export(stack_experts=True):
        if name not in plan.shapes or name in sums:
            raise RefitError(f"refit: the policy exported {name}, which the plan does not have (or has once only)")
        if tuple(tensor.shape) != plan.shapes[name]:
            raise RefitError(f"refit: {name} came as {list(tensor.shape)}, planned was {list(plan.shapes[name])}")
        sums[name] = proof.checksum(tensor)
        moved += tensor.nbytes
        for piece in plan.by_source[name]:
            target, landing = piece.target, landings[piece.target]
            if target not in open_landings:
                open_landings[target] = landing.open()
            open_landings[target][piece.target_box].copy_(tensor[piece.source_box])
            waiting[target] -= 1
            if waiting[target] == 0:
                landing.close(open_landings.pop(target))
    missing = sorted(set(plan.shapes) - set(sums))
    if missing:
        raise RefitError(f"refit: the policy did not export {missing[0]}; training stopped")
    return sums, moved


def prove(policy: WeightSource, engine: Engine, sums: dict[str, int] | None = None) -> float:
    """Score the canary on both sides, on every rank, and compare (collective over the world).

    Args:
        sums: the checksums of what this rank received, by tensor, for the ranks to compare.

    Returns:
        The largest gap of a log-prob on any rank.

    Raises:
        RefitError: on every rank, if the engine of any rank does not compute what the policy does.
    """
    config = engine.config
    tolerance = proof.TOLERANCES[engine.dtype]
    if config.canary_tolerance is not None:
        tolerance = replace(tolerance, gap=config.canary_tolerance)
    ids = proof.canary_ids(min(config.canary_tokens, config.max_model_len - 1), policy.arch.vocab)
    trainer = policy.score(ids).float().cpu()
    gap = proof.compare(engine.score(ids), trainer, tolerance)
    return proof.agree(engine, sums or {}, gap, tolerance).largest
