"""Checkpoints of a training run: written whole or not at all, proved by checksums, continued on any layout.

    with Checkpoints(policy, run / "checkpoints", sampler.batch) as checkpoints:
        start = checkpoints.resume()
        for step in range(start, steps):
            ...
            checkpoints.save_if_due(step + 1, mean_reward)

A checkpoint is Megatron's `torch_dist` format (`checkpoint_state`, `checkpoint_write`) with the generators of random
numbers (`checkpoint_random`), `run.json` (`checkpoint_run`) and `checksums.json` (`checkpoint_checksums`).
`checkpoint_rotation` says what its folder may look like, and `checkpoint_lock` keeps others out of it.
"""

import json
import math
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any, Self

import torch
import torch.distributed as dist

from pivotrl.policy import checkpoint_random, checkpoint_rotation, checkpoint_run, checkpoint_state
from pivotrl.policy.agree import on_first, together
from pivotrl.policy.checkpoint_checksums import DamagedCheckpoint
from pivotrl.policy.checkpoint_load import CARRIED_FILE, Carried, load
from pivotrl.policy.checkpoint_lock import FolderLock
from pivotrl.policy.checkpoint_optimizer import get_step
from pivotrl.policy.checkpoint_rotation import newest
from pivotrl.policy.checkpoint_run import changes
from pivotrl.policy.checkpoint_write import Pending, Writing
from pivotrl.policy.step import Policy

__all__ = ["Checkpoints", "changes", "newest"]


class Checkpoints:
    """The checkpoints of one run, and the one that is being written. Every method is collective."""

    def __init__(
        self,
        policy: Policy,
        folder: Path,
        next_batch: Callable[[int], Sequence[Any]] | None = None,
        carried: Carried | None = None,
        whole: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> None:
        """
        Args:
            policy: what is saved and loaded.
            folder: `checkpoints` in the run's output folder; made where it is missing.
            next_batch: the pivots of a step (0-based), a pure function (of the step and of `carried`), by which a
                resumed run sees that they are still the same.
            carried: what else has a state; equal on all ranks.
            whole: entered around reading and writing: in it nothing of the policy's is away.
        """
        self._policy, self._world, self._config = policy, policy.world, policy.config.checkpoint
        self._folder, self._next_batch, self._carried, self._whole = folder, next_batch, carried, whole
        self._lock: FolderLock | None = None
        self._rewards: list[float] = []
        self._pending: Pending | None = None
        self._saved: int | None = None

    def __enter__(self) -> Self:
        """Lock the folder, and remove what a killed run left unfinished in it.

        Raises:
            ValueError: another training writes there, or the folder cannot be written.
        """

        def enter() -> None:
            self._lock = FolderLock(self._folder)
            checkpoint_rotation.clean(self._folder)

        try:
            on_first(self._world, enter)
        except ValueError:
            self._release()
            raise
        return self

    def __exit__(self, kind: type | None, *_: object) -> None:
        """Finish what is being written; after an error, which other ranks may not share, leave it unfinished."""
        try:
            if kind is None:
                self.finish()
            elif self._pending is not None:
                self._pending.thread.join()
        finally:
            self._release()

    # ------------------------------------------------------------------ resuming

    def resume(self) -> int:
        """Load the newest checkpoint where there is one.

        Returns:
            The number of finished steps; 0 without a checkpoint.

        Raises:
            DamagedCheckpoint: a file is missing or is not what was written; with `checkpoint.fallback`, only where no
                checkpoint before it is whole.
            ValueError: the checkpoint does not fit the run as it is configured, or `checkpoint.resume` is false and
                there are checkpoints that a new run would overwrite.
        """
        target: Path | None = None
        while True:
            try:
                target = on_first(self._world, lambda: newest(self._folder))
                if target is None:
                    return 0
                if self._world.rank == 0 and not (self._folder / "latest").exists():
                    print(f"{self._folder} has no file latest: taking {target.name}, its newest", flush=True)
                if not self._policy.config.checkpoint.resume:
                    raise ValueError(
                        f"checkpoint.resume is false, but {self._folder} holds checkpoints of an earlier run: "
                        "choose another output folder, or remove them"
                    )
                with self._whole():
                    return load(self._policy, target, self._next_batch, self._carried)
            except DamagedCheckpoint as damage:
                self._fall_back(damage, target)
            target = None

    def _fall_back(self, damage: DamagedCheckpoint, target: Path | None) -> None:
        """Set the damaged checkpoint (or, without one, the damaged `latest`) aside, or stop."""
        before = on_first(self._world, lambda: checkpoint_rotation.before(self._folder, target))
        if before is None:
            raise DamagedCheckpoint(f"{damage}; there is no checkpoint before it: choose another output folder")
        if not self._config.fallback:
            raise DamagedCheckpoint(
                f"{damage}; set checkpoint.fallback=true to continue from {before.name}, the one before it, or choose "
                "another output folder"
            )
        aside = on_first(self._world, lambda: checkpoint_rotation.set_aside(self._folder, target, before))
        if self._world.rank == 0:
            left = f"; the damaged one is now {aside.name}: delete it when you like" if aside else ""
            print(f"{damage}; continuing from {before}, as checkpoint.fallback says{left}", flush=True)

    # ------------------------------------------------------------------ saving

    def save_if_due(self, step: int, reward: float | None = None, stopping: bool = False) -> None:
        """To be called after each step: save every `checkpoint.every` steps and after the last one.

        Args:
            step: number of finished steps.
            reward: mean reward of the last one.
            stopping: the run ends here, so this step counts as the last one.

        Raises:
            ValueError: a checkpoint cannot be written, or weights or moments are not finite numbers. The checkpoints
                before it are as they were.
        """
        self._rewards += [] if reward is None else [reward]
        if self._pending is not None and self._everyone_done():
            self.finish()
        last = stopping or step == self._policy.config.training.steps
        if last or (self._config.every and step % self._config.every == 0):
            self.save(step)
        if last:
            self.finish()

    def save_now(self, step: int) -> None:
        """Save after `step` finished steps where that is not done yet, and wait until it counts: for a run that is
        about to end. Raises as `save_if_due`."""
        if self._saved != step:
            self.save(step)
        self.finish()

    def save(self, step: int) -> None:
        """Save after `step` finished steps; with `checkpoint.background` it counts only after `finish`. Raises as
        `save_if_due`."""
        self.finish()
        with self._whole():
            self._save(step)

    def _save(self, step: int) -> None:
        self._saved = step
        policy, world = self._policy, self._world
        partial = on_first(world, lambda: checkpoint_rotation.start(self._folder, step))
        steps = together(world.object_group, lambda: get_step(policy.optimizer))
        norms = checkpoint_state.norms(policy)
        for kind, norm in norms.items():
            if not math.isfinite(norm):
                raise self._not_written(f"the norm of {kind} is {norm}", partial)
        reward = sum(self._rewards) / len(self._rewards) if self._rewards else None
        self._rewards = []
        state = checkpoint_state.to_save(policy)
        run = checkpoint_run.describe(
            policy,
            step,
            max((found for found in steps if found is not None), default=0),
            norms,
            reward,
            checkpoint_run.fingerprint(self._next_batch, step),
        )
        writing = Writing(state, partial, world, copy=self._config.background)
        files = {checkpoint_random.file_of(world.rank): checkpoint_random.capture()}
        of_run = {"run.json": json.dumps(run, indent=1).encode()}
        if self._carried is not None:
            of_run[CARRIED_FILE] = self._carried.state()
        self._pending = Pending(writing, partial, files, of_run)
        if not self._config.background:
            self.finish()

    def finish(self) -> None:
        """Wait for the checkpoint that is being written, and let it count. Raises as `save_if_due`."""
        if self._pending is None:
            return
        pending, self._pending = self._pending, None
        try:
            together(self._world.object_group, pending.wait)
            pending.writing.finish(pending.files)
            target = on_first(self._world, lambda: checkpoint_rotation.publish(pending.partial))
        except ValueError as error:
            raise self._not_written(str(error), pending.partial) from None
        on_first(self._world, lambda: checkpoint_rotation.rotate(target, self._config.keep, self._config.keep_best))

    def _not_written(self, why: str, partial: Path) -> ValueError:
        """Remove what was begun, and return what is to be raised."""
        before = on_first(self._world, lambda: checkpoint_rotation.give_up(partial))
        return ValueError(
            f"{why}; checkpoint {partial.stem} was not written, "
            + (f"{before.name} is still there to continue from" if before else "and there is none before it")
        )

    def _everyone_done(self) -> bool:
        done = torch.tensor(0 if self._pending.thread.is_alive() else 1)
        dist.all_reduce(done, op=dist.ReduceOp.MIN, group=self._world.object_group)
        return bool(done.item())

    def _release(self) -> None:
        if self._lock is not None:
            self._lock.release()
            self._lock = None
