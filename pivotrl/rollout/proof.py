"""Did the weights arrive? A manifest that both sides and all ranks agree on, and a canary that both sides score."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from pivotrl.rollout.engine import Engine
from pivotrl.rollout.plan import RefitError
from pivotrl.rollout.split import engine_seed

_BITS = {2: torch.int16, 4: torch.int32}


def checksum(tensor: Tensor) -> int:
    """Sum of a tensor's bit patterns: exact, and the same in any order, so it survives transposing and packing.

    Args:
        tensor: float32, bfloat16 or float16, of any layout.
    """
    return int(tensor.contiguous().view(_BITS[tensor.element_size()]).sum(dtype=torch.int64))


def fingerprint(sums: Mapping[str, int]) -> str:
    """A name of all weights, from their checksums by tensor."""
    return hashlib.sha256(repr(sorted(sums.items())).encode("utf-8")).hexdigest()[:32]


def canary_ids(length: int, vocabulary: int) -> list[int]:
    """A fixed token sequence spread over the vocabulary, so that it passes through many experts."""
    return [engine_seed(position) % vocabulary for position in range(length)]


@dataclass(frozen=True, slots=True)
class Tolerance:
    """What two correct implementations may differ by."""

    gap: float
    """Largest difference of a log-prob."""
    outliers: float
    """Share of the positions that may differ by more, though not by infinity."""


# In bfloat16 a router's near-tie falls this way in one implementation and that way in the other. On the demo's model,
# whose routers are not made for random tokens, 19 right refits had up to 13 % of the positions off by more than 0.3,
# and one run 15 %. Experts in a wrong layout put 91 % off and more; weights that were all 5 % stale 51 % and more.
TOLERANCES = {"float32": Tolerance(1e-3, 0.0), "bfloat16": Tolerance(0.3, 0.25)}


@dataclass(frozen=True, slots=True)
class CanaryGap:
    """How far the engine's canary is from the trainer's."""

    ok: bool
    largest: float
    position: int
    """0-based position in the canary of the token whose log-prob is furthest off."""
    engine: float
    trainer: float
    above: int
    """Positions that are off by more than the tolerance."""
    total: int


def compare(engine_logp: Tensor, trainer_logp: Tensor, tolerance: Tolerance) -> CanaryGap:
    """Where two rows of log-probs [N] differ most, and whether by too much. A NaN on either side is always too much."""
    gaps = (engine_logp - trainer_logp).abs().nan_to_num(nan=torch.inf, posinf=torch.inf)
    worst, above = int(gaps.argmax()), int((gaps > tolerance.gap).sum())
    return CanaryGap(
        ok=above <= tolerance.outliers * len(gaps) and bool(gaps.isfinite().all()),
        largest=float(gaps[worst]),
        position=worst + 1,
        engine=float(engine_logp[worst]),
        trainer=float(trainer_logp[worst]),
        above=above,
        total=len(gaps),
    )


def agree(engine: Engine, sums: Mapping[str, int], gap: CanaryGap, tolerance: Tolerance) -> CanaryGap:
    """Hear every rank's manifest and canary (collective); the largest gap of all.

    Raises:
        RefitError: on every rank, if any rank received other bytes or its engine computes something else.
    """
    mine = (dict(sums), gap)
    everyone: list[Any] = [mine] * engine.world_size
    if engine.world_size > 1:
        dist.all_gather_object(everyone, mine, group=engine.object_group)
    for rank, (theirs, _) in enumerate(everyone):
        for name, first in everyone[0][0].items():
            if theirs[name] != first:
                raise RefitError(f"refit: rank {rank} received other bytes of {name} than rank 0; training stopped")
    for rank, (_, their_gap) in enumerate(everyone):
        if not their_gap.ok:
            raise RefitError(
                f"refit: the canary says that rank {rank}'s engine does not hold the policy's weights: at position "
                f"{their_gap.position} the engine's log-prob is {their_gap.engine:.5f}, the trainer's "
                f"{their_gap.trainer:.5f} (off by {their_gap.largest:.3g}, the largest; {their_gap.above} of "
                f"{their_gap.total} positions are off by more than rollout.canary_tolerance {tolerance.gap:g}); "
                "training stopped"
            )
    return max((their_gap for _, their_gap in everyone), key=lambda one: one.largest)
