"""Reading a checkpoint into a policy, with the proof that it is what was saved."""

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol

from pivotrl.policy import checkpoint_random, checkpoint_run, checkpoint_state
from pivotrl.policy.agree import together
from pivotrl.policy.checkpoint_checksums import verify
from pivotrl.policy.checkpoint_optimizer import get_step, set_step
from pivotrl.policy.optimizer import learning_rate
from pivotrl.policy.step import Policy

NORM_TOLERANCE = 1e-9
"""Largest relative difference of a norm at resume. The sum is of float64 numbers, in another order on another layout:
that is worth about 1e-12; one wrong shard is worth far more than 1e-9."""


CARRIED_FILE = "sampler.npz"
"""The state of what a run carries beside its policy: the beliefs of fresh pivots."""


class Carried(Protocol):
    """Something with a state, equal on all ranks."""

    def state(self) -> bytes: ...

    def restore(self, data: bytes) -> None:
        """Raises ValueError where `data` is no state that fits."""


def load(
    policy: Policy,
    target: Path,
    next_batch: Callable[[int], Sequence[Any]] | None = None,
    carried: Carried | None = None,
) -> int:
    """Verify a checkpoint, read it into the policy, and compare what was read with what was saved (collective).

    Args:
        policy: is filled in place, the generators of random numbers too.
        target: the checkpoint.
        next_batch: the pivots of a step, to compare with those that the checkpoint was saved before.
        carried: takes its state from the checkpoint; where a run without it wrote that, it stays as it is.

    Returns:
        The number of finished steps.

    Raises:
        DamagedCheckpoint: a file is missing or is not what was written; nothing has been read into the policy.
        ValueError: the checkpoint does not fit the run as it is configured.
    """
    world = policy.world
    verify(target, world.object_group)
    run = together(world.object_group, lambda: checkpoint_run.read(target))[world.rank]
    if carried is not None and (target / CARRIED_FILE).exists():
        together(world.object_group, lambda: _restore(carried, target / CARRIED_FILE))
    _announce(policy, target, run, next_batch)
    checkpoint_state.load(policy, target)
    set_step(policy.optimizer, run["optimizer_step"])
    for group in policy.optimizer.param_groups:
        group["lr"] = run["learning_rate"]
    steps = [step for step in together(world.object_group, lambda: get_step(policy.optimizer)) if step is not None]
    check_after_load(policy, run, target, max(steps), checkpoint_state.norms(policy))
    if run["layout"] == checkpoint_run.layout(policy):
        mine = target / checkpoint_random.file_of(world.rank)
        together(world.object_group, lambda: checkpoint_random.restore(mine))
    else:
        checkpoint_random.reseed(policy.config.seed, run["step"])
    return run["step"]


def check_after_load(
    policy: Policy, run: dict[str, Any], target: Path, optimizer_step: int, norms: dict[str, float]
) -> None:
    """Compare what was loaded with what was saved.

    Raises:
        ValueError: a step count, the learning rate or a norm is another one.
    """
    if optimizer_step != run["optimizer_step"]:
        raise ValueError(
            f"{target}: the optimizer is at update {optimizer_step} after loading, {run['optimizer_step']} was saved"
        )
    then = run["config"].get("optimizer", {})
    now = policy.config.optimizer.model_dump(mode="json")
    if all(then.get(key) == now[key] for key in ("lr", "warmup_steps")):
        lr = learning_rate(policy.config.optimizer, run["step"] - 1)
        if not math.isclose(lr, run["learning_rate"], rel_tol=1e-12):
            raise ValueError(
                f"{target}: step {run['step']} was done at learning rate {run['learning_rate']!r}, and the run's "
                f"settings give {lr!r} for it: this is another schedule than the one that it was saved under"
            )
    for kind, norm in norms.items():
        if not math.isclose(norm, run["norms"].get(kind, math.nan), rel_tol=NORM_TOLERANCE):
            raise ValueError(
                f"{target}: the norm of {kind} is {norm!r} after loading, {run['norms'].get(kind)!r} was saved; "
                "the state does not belong to this model as it is set up now"
            )


def _restore(carried: Carried, path: Path) -> None:
    try:
        carried.restore(path.read_bytes())
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


def _announce(
    policy: Policy, target: Path, run: dict[str, Any], next_batch: Callable[[int], Sequence[Any]] | None
) -> None:
    """Say what is not as it was when the checkpoint was written, and stop where it cannot be continued."""
    changed = checkpoint_run.changes(policy.config, run["config"])
    if "model.freeze_router" in changed:
        raise ValueError(
            f"model.freeze_router {changed['model.freeze_router']}, but {target} has the optimizer's state for the "
            "other setting; set it back, or choose another output folder"
        )
    said = []
    if changed:
        words = ", ".join(f"{key} {change}" for key, change in changed.items())
        said.append(f"continuing {target} with other settings than it was trained with: {words}")
    if run["layout"] != checkpoint_run.layout(policy):
        said.append(f"continuing {target} on another layout: the generators of random numbers are seeded anew")
    batch = checkpoint_run.fingerprint(next_batch, run["step"])
    if batch and run.get("next_batch") and batch != run["next_batch"]:
        said.append(
            f"continuing {target} with other pivots than it was trained with (or, of a baseline, other trajectories or "
            "tasks): the data, how many a step takes, or seed is not what it was"
        )
    for line in said if policy.world.rank == 0 else []:
        print(line, flush=True)
