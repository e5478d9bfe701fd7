"""A job's configuration: what all arms share, what its arm changes, its seed and rate."""

from pathlib import Path
from typing import Any

from pivotrl.config import RunConfig, parse_config
from pivotrl.study.plan import ARM, SELECTIONS, Job, Sizes

STREAM = "expert"
"""Stream of tasks that the expert's trajectories and end-to-end RL's episodes are of."""
TRAJECTORIES = "trajectories.jsonl"
NEW_TOKENS, CONTEXT = 48, 768


def configure(job: Job, sizes: Sizes, folder: Path, base: Path, steps: int = 1) -> RunConfig:
    """The configuration of a job that trains `steps` steps in all.

    Args:
        folder: the study's.
        base: the model that everything starts from.
    """
    training: dict[str, Any] = {"steps": steps, "group_size": sizes.group_size, "micro_batch_tokens": 8192}
    tree: dict[str, Any] = {
        "output": str(folder / job.folder),
        "seed": job.seed,
        "model": {"path": str(base), "dtype": "float32"},
        "trajectories": {"files": [str(folder / TRAJECTORIES)], "heldout_share": 0.0},
        "verifier": {"name": "tool_call"},
        "pivots": {"samples": sizes.profile_samples, "max_mean": 0.6},
        "rollout": {"max_model_len": CONTEXT, "max_new_tokens": NEW_TOKENS, "bank": False, "canary_tolerance": 1e-2},
        "training": training,
        "optimizer": {"lr": job.rate or 5e-4, "warmup_steps": 5, "weight_decay": 0.0},
        # Saved after the last step of every stretch between two points; all of them are kept for the tests.
        "checkpoint": {"every": 0, "keep": 99},
        "telemetry": {"tensorboard": False, "trace": False},
        "health": {"finite": "stop"},
    }
    overrides: dict[str, Any] = {}
    if job.stage == "select":
        overrides = dict(SELECTIONS[job.name])
    elif job.stage in ("train", "test"):
        arm = ARM[job.name]
        overrides = dict(arm.overrides)
        if arm.kind == "sft":
            tree["sft"] = {"trajectories_per_step": sizes.trajectories_per_step}
        elif arm.kind == "episodes":
            tree["environment"] = {"stream": STREAM, "tasks": sizes.trajectories}
        drawn = sizes.tasks_per_step if arm.kind == "episodes" else sizes.pivots_per_step
        tree["training"] |= {"pivots_per_step": round(arm.batch * drawn)}
    for key, value in overrides.items():
        section, name = key.split(".")
        tree[section] = tree.get(section, {}) | {name: value}
    return parse_config(tree, f"the study's {job}")
