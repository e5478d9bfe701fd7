"""Did the weights arrive? A manifest that both sides and all ranks agree on, and a canary that both sides score."""

import hashlib
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from pivotrl.policy.shards import Bounds
from pivotrl.rollout.engine import Engine
from pivotrl.rollout.plan import RefitError
from pivotrl.rollout.split import engine_seed
from pivotrl.rollout.transfers import Transfers

_BITS = {2: torch.int16, 4: torch.int32}


def checksum(tensor: Tensor) -> Tensor:
    """Sum of a tensor's bits, read as integers and wrapped at 64 bits: int64 [], on the tensor's device.

    Exact, and the same in any order of rows, so the sums of slices add up to the tensor's. Rows of a multiple of 8
    bytes are summed by 8, which is far faster on a CPU than by 2; the last dimension alone decides, so that both ends
    of a transfer do the same.

    Args:
        tensor: float32, bfloat16 or float16, of any layout.
    """
    size = tensor.element_size()
    if tensor.shape[-1] * size % 8:
        return tensor.contiguous().view(_BITS[size]).sum(dtype=torch.int64)
    words = 8 // size
    strides = [stride for stride, extent in zip(tensor.stride()[:-1], tensor.shape[:-1], strict=True) if extent > 1]
    if tensor.stride(-1) != 1 or any(place % words for place in (tensor.storage_offset(), *strides)):
        tensor = tensor.contiguous()
    return tensor.view(torch.int64).sum()


def check_sums(plan: Transfers, sums: Tensor) -> None:
    """Compare what owners sent with what landed (collective over the world).

    Args:
        sums: what `Transport.run` returned on this rank, int64 [2, transfers]; becomes that of all ranks.

    Raises:
        RefitError: on every rank, if bytes changed on their way, or replicas of a weight differ.
    """
    if dist.get_world_size() > 1:
        dist.all_reduce(sums)
    sent, landed = sums.cpu()
    for index in (sent != landed).nonzero()[:1, 0].tolist():
        move = plan.moves[index]
        raise RefitError(
            f"refit: {move.tensor}{_shown(move.bounds)} changed between rank {move.owner}, where its checksum is "
            f"{int(sent[index])}, and rank {move.taker}'s engine, where it is {int(landed[index])}; training stopped"
        )
    first = torch.tensor(plan.first_alike)
    for index in (sent != sent[first]).nonzero()[:1, 0].tolist():
        move, other = plan.moves[index], plan.moves[plan.first_alike[index]]
        raise RefitError(
            f"refit: rank {move.owner} and rank {other.owner} hold other values of {move.tensor}{_shown(move.bounds)}: "
            f"their checksums are {int(sent[index])} and {int(sent[first[index]])}; training stopped"
        )


def check_filled(model: torch.nn.Module) -> None:
    """Stop where an engine that was made blank (`Receiver.blank`) has a NaN left. What a CPU engine has packed away
    cannot be read; each of these is read for every token, so the canary would be NaN.

    Raises:
        RefitError: it names the tensor.
    """
    tensors = {
        name: one for name, one in [*model.named_parameters(), *model.named_buffers()] if one.is_floating_point()
    }
    left = torch.stack([one.isnan().any() for one in tensors.values()])
    for index in left.nonzero()[:1, 0].tolist():
        raise RefitError(
            f"refit: the engine's {list(tensors)[index]} has NaN after its first refit: it was not written whole, or "
            "the policy's weights have NaN; training stopped"
        )


def _shown(bounds: Bounds) -> str:
    return "[" + ", ".join(f"{start}:{stop}" for start, stop in bounds) + "]"


def fingerprint(sums: Tensor) -> str:
    """A name of the weights that all engines hold, from `check_sums`' sums of all ranks (on one layout)."""
    return hashlib.sha256(sums[1].cpu().numpy().tobytes()).hexdigest()[:32]


CANARIES = 2
NEAR_TIES = 0.25
"""Share of a canary's positions, in any type, that a router's near-tie may put off: it falls this way in one
implementation and that way in the other, and later positions read its token. The study, in float32, met 8 of 47 once
(docs/decisions.md); a second canary, of other tokens, then decides."""


def canary_ids(length: int, vocabulary: int, number: int = 0) -> list[int]:
    """A fixed token sequence spread over the vocabulary, so that it passes through many experts; `number` of them."""
    return [engine_seed(number * length + position) % vocabulary for position in range(length)]


@dataclass(frozen=True, slots=True)
class Tolerance:
    """What two correct implementations may differ by."""

    gap: float
    """Largest difference of a log-prob."""
    outliers: float
    """Share of the positions that may differ by more, though not by infinity."""


# In bfloat16 a router's near-tie falls this way in one implementation and that way in the other. On the demo's model,
# whose routers are not made for random tokens, 17 right refits had up to 13 % of the positions off by more than 0.3,
# and one run 15 %. Experts in a wrong layout put 91 % off and more; weights that were all 5 % stale 51 % and more.
TOLERANCES = {"float32": Tolerance(1e-3, 0.0), "bfloat16": Tolerance(0.3, 0.25)}


@dataclass(frozen=True, slots=True)
class CanaryGap:
    """How far the engine's canary is from the trainer's."""

    ok: bool
    near_tie: bool
    """Not ok, but no more positions are off than a router's near-tie explains."""
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
    finite = bool(gaps.isfinite().all())
    ok = finite and above <= tolerance.outliers * len(gaps)
    return CanaryGap(
        ok=ok,
        near_tie=not ok and finite and above <= NEAR_TIES * len(gaps),
        largest=float(gaps[worst]),
        position=worst + 1,
        engine=float(engine_logp[worst]),
        trainer=float(trainer_logp[worst]),
        above=above,
        total=len(gaps),
    )


def agree(engine: Engine, gap: CanaryGap, tolerance: Tolerance, last: bool = True) -> CanaryGap | None:
    """Hear every rank's canary (collective).

    Args:
        last: whether no other canary follows.

    Returns:
        The largest gap of all; None: some rank's may be a near-tie, and another canary has to decide.

    Raises:
        RefitError: on every rank, if the engine of any rank computes something else.
    """
    everyone: list[Any] = [gap] * engine.world_size
    if engine.world_size > 1:
        dist.all_gather_object(everyone, gap, group=engine.object_group)
    if not last and any(one.near_tie for one in everyone) and all(one.ok or one.near_tie for one in everyone):
        return None
    for rank, their_gap in enumerate(everyone):
        if not their_gap.ok:
            raise RefitError(
                f"refit: the canary says that rank {rank}'s engine does not hold the policy's weights: at position "
                f"{their_gap.position} the engine's log-prob is {their_gap.engine:.5f}, the trainer's "
                f"{their_gap.trainer:.5f} (off by {their_gap.largest:.3g}, the largest; {their_gap.above} of "
                f"{their_gap.total} positions are off by more than rollout.canary_tolerance {tolerance.gap:g}); "
                "training stopped"
            )
    return max(everyone, key=lambda one: one.largest)
