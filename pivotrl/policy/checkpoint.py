"""Checkpoints of a training run: Megatron's `torch_dist` format, written whole or not at all, resumed from the newest.

A run's `checkpoints/` folder holds `step_000020/` with the sharded state and `run.json`, and `latest` with the name of
the newest complete one, which moves only after every rank has written.
"""

import json
import os
import shutil
from pathlib import Path
from typing import Any

import torch.distributed as dist

from pivotrl.config import RunConfig
from pivotrl.policy import checkpoint_files, device, torch_adam
from pivotrl.policy.step import Policy

_OPTIMIZER_METADATA = {"distrib_optim_sharding_type": "fully_reshardable", "chained_optim_avoid_prefix": True}


def resume(policy: Policy, folder: Path) -> int:
    """Load the run's newest checkpoint where there is one (collective).

    Returns:
        The number of finished steps; 0 without a checkpoint.

    Raises:
        ValueError: the checkpoint cannot be read, or `checkpoint.resume` is false and there are checkpoints that a new
            run would overwrite.
    """
    target = newest(folder)
    if target is None:
        return 0
    if not policy.config.checkpoint.resume:
        raise ValueError(
            f"checkpoint.resume is false, but {folder} holds checkpoints of an earlier run: "
            "choose another output folder, or remove them"
        )
    changed = changes(policy.config, _read_run(target).get("config", {}))
    if "optimizer.distributed" in changed:
        raise ValueError(
            f"optimizer.distributed {changed['optimizer.distributed']}, but {target} holds the optimizer's state "
            "in the other form; set it back, or choose another output folder"
        )
    if changed and policy.world.rank == 0:
        words = ", ".join(f"{key} {change}" for key, change in changed.items())
        print(f"continuing {target} with other settings than it was trained with: {words}", flush=True)
    return load(policy, target)


def changes(config: RunConfig, saved: dict[str, Any]) -> dict[str, str]:
    """Settings that a checkpoint was made with and that are others now, as `key: was 1e-06, is 2e-06`.

    What cannot change the updates (folders, number of steps, checkpoints, telemetry) is left out.
    """

    def flat(tree: dict[str, Any], prefix: str = "") -> dict[str, Any]:
        result: dict[str, Any] = {}
        for key, value in tree.items():
            result |= flat(value, f"{prefix}{key}.") if isinstance(value, dict) else {prefix + key: value}
        return result

    then, now = flat(saved), flat(config.model_dump(mode="json"))
    harmless = ("output", "training.steps", "checkpoint.", "telemetry.")
    return {
        key: f"was {then[key]!r}, is {now[key]!r}"
        for key in now
        if key in then and then[key] != now[key] and not key.startswith(harmless)
    }


def save_if_due(policy: Policy, folder: Path, step: int) -> None:
    """Save after `step` finished steps if that is a multiple of `checkpoint.every`, or the last step."""
    due = policy.config.checkpoint.every
    if step == policy.config.training.steps or (due and step % due == 0):
        save(policy, folder, step, policy.config.checkpoint.keep)


def save(policy: Policy, folder: Path, step: int, keep: int) -> Path:
    """Write weights and optimizer state after `step` finished steps (collective), and drop all but `keep` checkpoints.

    Returns:
        The checkpoint's folder.
    """
    from megatron.core import dist_checkpointing

    target = folder / f"step_{step:06d}"
    partial = folder / f"step_{step:06d}.partial"
    if policy.world.rank == 0:
        for leftover in (target, partial):
            shutil.rmtree(leftover, ignore_errors=True)
        partial.mkdir(parents=True)
    _barrier(policy)
    with device.scope():
        dist_checkpointing.save(_sharded_state(policy, is_loading=False), str(partial))
    _barrier(policy)
    if policy.world.rank == 0:
        (partial / "run.json").write_text(json.dumps({"step": step, "config": policy.config.model_dump(mode="json")}))
        partial.rename(target)
        _write_atomically(folder / "latest", target.name)
        # Newer ones are of a branch that was left when someone pointed `latest` back: not this run's to remove.
        mine = sorted(path for path in folder.glob("step_??????") if path.name <= target.name)
        for old in mine[:-keep]:
            shutil.rmtree(old)
    _barrier(policy)
    return target


def newest(folder: Path) -> Path | None:
    """The newest complete checkpoint of a run, or None where there is none.

    Raises:
        ValueError: `latest` names a checkpoint that is not there or not whole.
    """
    marker = folder / "latest"
    if not marker.exists():
        return None
    target = folder / marker.read_text().strip()
    if not (target / "run.json").is_file():
        raise ValueError(
            f"{target / 'run.json'}: no such file, but {marker} names this checkpoint; put it back, write an older "
            f"checkpoint's name into {marker}, or choose another output folder"
        )
    return target


def load(policy: Policy, target: Path) -> int:
    """Read weights and optimizer state into the policy (collective).

    Returns:
        The number of finished steps.

    Raises:
        ValueError: a file of the checkpoint is missing or unreadable (it is named).
    """
    with device.scope():
        torch_adam.init_state(policy.optimizer)
        torch_adam.patch_distributed_load()
        state = checkpoint_files.load(_sharded_state(policy, is_loading=True), target)
        policy.model.load_state_dict(state["model"])
        policy.optimizer.load_state_dict(state["optimizer"])
        torch_adam.unalias_steps(policy.optimizer)
    return _read_run(target)["step"]


def _read_run(target: Path) -> dict[str, Any]:
    try:
        run = json.loads((target / "run.json").read_text())
        assert isinstance(run["step"], int)
    except (OSError, ValueError, KeyError, TypeError, AssertionError) as error:
        raise ValueError(
            f"{target / 'run.json'}: not what a run writes ({error!r:.100}); write an older checkpoint's name into "
            f"{target.parent / 'latest'}, or choose another output folder"
        ) from None
    return run


def _sharded_state(policy: Policy, is_loading: bool) -> dict:
    model = policy.model.sharded_state_dict()
    optimizer = policy.optimizer.sharded_state_dict(model, is_loading=is_loading, metadata=_OPTIMIZER_METADATA)
    return {"model": model, "optimizer": optimizer}


def _write_atomically(path: Path, text: str) -> None:
    temporary = path.with_suffix(".tmp")
    with temporary.open("w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)


def _barrier(policy: Policy) -> None:
    if policy.world.world_size > 1:
        dist.barrier(group=policy.world.object_group)
