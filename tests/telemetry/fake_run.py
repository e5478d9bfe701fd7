"""A run folder with every file the report reads, made up; also a command to look at the page by hand."""

import json
import math
import random
import sys
from pathlib import Path
from typing import Any

HOSTILE = "</pre><script>alert(1)</script><img src=x onerror=alert(2)> \u202e \x1b[31m \ud800"


def counts(candidates: int, mixed: int, all_pass: int) -> dict[str, Any]:
    return {
        "candidates": candidates,
        "mixed": mixed,
        "all_pass": all_pass,
        "all_fail": candidates - mixed - all_pass,
        "pivots": mixed * 9 // 10,
        "mean_reward": 0.41,
    }


def reason_metrics(progress: float) -> dict[str, float]:
    """Seven reasons, one of them partly rewarded and one that a model could have written."""
    shares = {
        "call_matches": 0.42 + 0.4 * progress,
        "other_value": 0.25 - 0.2 * progress,
        "number_of_calls": 0.12,
        "other_tool": 0.09 - 0.08 * progress,
        "no_action": 0.06 - 0.06 * progress,
        "format": 0.05 - 0.05 * progress,
        HOSTILE: 0.01,
    }
    rewards = {"call_matches": 1.0, "number_of_calls": 0.5}
    return {f"reason.{name}": share for name, share in shares.items()} | {
        f"reward.{name}": rewards.get(name, 0.0) for name in shares
    }


def metrics_row(step: int, steps: int, rng: random.Random) -> dict[str, float]:
    progress = 1 - math.exp(-3 * step / steps)
    return {
        "reward": 0.42 + 0.4 * progress + rng.gauss(0, 0.02),
        "signal_share": 0.85 - 0.6 * progress + rng.gauss(0, 0.03),
        "entropy": 0.31 - 0.2 * progress + rng.gauss(0, 0.01),
        "kl": 0.02 * progress,
        "clip_share": abs(rng.gauss(0, 0.004)),
        "grad_norm": 0.6 + rng.gauss(0, 0.1) + (3 if step == steps // 2 else 0),
        "gap": 2e-7 + abs(rng.gauss(0, 5e-8)),
        "gap_max": 1.5e-6 + abs(rng.gauss(0, 3e-7)),
        "response_length": 17.5 + rng.gauss(0, 0.5),
        "tokens_per_second": 8200 + rng.gauss(0, 300),
        "ratio": 1.0,
        **reason_metrics(progress),
        "canary_error": 3e-6 + abs(rng.gauss(0, 5e-7)),
        "loss": rng.gauss(0, 0.01),
        "lr": 5e-4,
        "seconds.rollout": 1.6 + abs(rng.gauss(0, 0.1)),
        "seconds.verify": 0.02,
        "seconds.train": 1.1 + abs(rng.gauss(0, 0.05)),
        "seconds.refit": 0.08,
        "seconds.save": 0.6 if step % 30 == 29 else 0.0,
        "seconds.total": 3.6,
        "samples": 128,
        "response_tokens": 2240,
        "ranks": 2,
    }


def make_run(folder: Path, steps: int = 60) -> Path:
    """Write all files of a finished run into `folder`."""
    (folder / "pivots").mkdir(parents=True)
    rng = random.Random(0)
    rows = [{"step": step} | metrics_row(step, steps, rng) for step in range(steps)]
    (folder / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    families = {"sort": 0.99, "add": 0.97, "reverse": 1.0, "lookup": 0.96, "shift": 0.98}
    evaluation = {
        "base": {
            "turn_reward": 0.423,
            "task_success": 0.031,
            "turns_per_task": 5.91,
            "mixed_share": 0.82,
            "violations": 0.41,
            "families": families | {"mean": 0.98},
            "counts": {"turns": 212, "tasks": 128, "questions per family": 100},
        },
        "trained": {
            "turn_reward": 0.791,
            "task_success": 0.352,
            "turns_per_task": 5.24,
            "mixed_share": 0.31,
            "violations": 0.05,
            "families": {"sort": 0.99, "add": 0.91, "reverse": 1.0, "lookup": 0.97, "shift": 0.98, "mean": 0.97},
        },
    }
    (folder / "evaluation.json").write_text(json.dumps(evaluation))
    pivots = counts(544, 447, 38) | {
        "per_tool": {
            "get_order": counts(150, 131, 2),
            "(message)": counts(140, 90, 34),
            "find_user": counts(100, 98, 2),
            "cancel_order": counts(80, 71, 0),
            "transfer": counts(74, 57, 0),
        },
        "per_depth": {"1": counts(100, 98, 2), "3": counts(100, 90, 4), "5": counts(344, 259, 32)},
        "reasons": {
            "call_matches": {"samples": 1784, "share": 0.41, "mean_reward": 1.0},
            "other_value": {"samples": 2568, "share": 0.59, "mean_reward": 0.0},
        },
        "samples": 8,
        "max_mean": 0.9,
        "cost": {
            "samples": 4352,
            "prompt_tokens": 81234,
            "sampled_tokens": 76543,
            "seconds": 41.2,
            "engine_seconds": 80.1,
            "gpu_hours": 0.0229,
        },
    }
    (folder / "pivots/summary.json").write_text(json.dumps(pivots))
    example = {
        "id": "desk-0017/3",
        "prompt": "...<|im_start|>user\nPlease cancel the lamp.<|im_end|>\n<|im_start|>assistant\n",
        "expert": {"type": "function_call", "name": "cancel_order", "arguments": '{"order_id": 4821}'},
        "failing": HOSTILE,
        "failing_reason": "no function call was made",
        "succeeding": '<tool_call>\n{"name": "cancel_order", "arguments": {"order_id": 4821}}\n</tool_call>',
    }
    (folder / "examples.json").write_text(json.dumps([example, example | {"id": "desk-0017/5"}]))
    (folder / "config.yaml").write_text("output: runs/demo\nseed: 0\nmodel:\n  path: pivotrl/demo/base\n")
    (folder / "summary.json").write_text(
        json.dumps({"seconds": {"pivots": 61.5, "training": 213.4}, "selection": {"hidden": 1}, "steps": steps})
    )
    return folder


if __name__ == "__main__":
    from pivotrl.telemetry.report import write_report

    print(write_report(make_run(Path(sys.argv[1]))))
