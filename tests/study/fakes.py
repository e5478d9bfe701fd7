"""A study's results as if it had run: success and families' shares by hand."""

from pivotrl.study.plan import ARMS, SELECTIONS, Job, Sizes
from pivotrl.study.results import Results

SIZES = Sizes(
    seeds=(1, 2, 3),
    rates=(1e-4, 1e-3),
    points={"pivots": (10, 20), "sft": (30, 60), "episodes": (10, 20)},
    validation_tasks=100,
    test_tasks=100,
    questions=50,
)
FAMILIES = ("add", "sort")
"""And "chance", which the base does not know: nothing that happens to it counts."""
TURNS = {
    "pivotrl": 50,
    "random": 50,
    "strict": 50,
    "sft": 0,
    "end_to_end": 1000,
    "thrifty": 25,
    "kl": 50,
    "mixed": 50,
    "end_to_end_half": 500,
}
"""Rollout turns of a step."""


def bits(share: float, count: int = 100) -> str:
    ones = round(share * count)
    return "1" * ones + "0" * (count - ones)


def measured(success: float, families: float) -> dict:
    return {
        "success": bits(success),
        "turns": 5.0,
        "families": {name: bits(families, 50) for name in FAMILIES} | {"chance": bits(max(families - 0.6, 0), 50)},
        "log_probs": dict.fromkeys([*FAMILIES, "chance"], families - 1),
        "chances": dict.fromkeys(FAMILIES, families - 0.1) | {"chance": 0.0},
    }


def write_base(results: Results) -> None:
    for seed in SIZES.seeds:
        point = {"step": 0, "validation": measured(0.1, 0.9)} | measured(0.1, 0.9)
        results.write(Job("base", "base", seed), {"points": [point]})


def write_selections(results: Results) -> None:
    for seed in SIZES.seeds:
        for name in SELECTIONS:
            summary = {"candidates": 10, "pivots": 7, "mixed": 8, "cost": {"samples": 30 if name == "thrifty" else 80}}
            point = {"step": 0, "summary": summary, "seconds": 5.0, "processor_seconds": 4.0}
            results.write(Job("select", name, seed), {"points": [point]})


def write_run(results: Results, job: Job, curve: list[tuple[float, float]], tested: bool = True) -> None:
    """`curve`: (success, families) at each of the job's points."""
    points = []
    for step, (success, families) in zip(results.steps(job), curve, strict=True):
        told = {"rollout_turns": TURNS[job.name] * step, "sampled_tokens": 0, "processor_seconds": 2.0, "seconds": 3.0}
        told |= {} if job.name == "sft" else {"signal_share": 0.6, "reward": 0.5}
        points.append({"step": step} | told | measured(success, families))
    results.write(job, {"points": points})
    if tested:
        test = [{"step": point["step"]} | measured(*pair) for point, pair in zip(points, curve, strict=True)]
        results.write(Job("test", job.name, job.seed, job.rate), {"points": test})


CURVES = {
    "pivotrl": [(0.6, 0.9), (0.8, 0.9)],
    "sft": [(0.4, 0.8), (0.6, 0.5)],
    "random": [(0.4, 0.9), (0.7, 0.9)],
    "strict": [(0.2, 0.9), (0.3, 0.88)],
    "end_to_end": [(0.3, 0.9), (0.6, 0.9)],
    "kl": [(0.5, 0.9), (0.7, 0.9)],
    "mixed": [(0.5, 0.9), (0.7, 0.9)],
    "thrifty": [(0.4, 0.9), (0.6, 0.9)],
    "end_to_end_half": [(0.2, 0.9), (0.5, 0.9)],
}


def write_all(results: Results, curves: dict = CURVES) -> None:
    """The whole study; the first rate is the worse one. Seeds differ by a point of success."""
    write_base(results)
    write_selections(results)
    for arm in (arm for arm in ARMS if arm.name in results.sizes.arms):
        write_run(results, Job("train", arm.name, 1, 1e-4), [(0.11, 0.9), (0.12, 0.9)], tested=False)
        for seed in SIZES.seeds:
            curve = [(success + 0.01 * (seed - 2), families) for success, families in curves[arm.name]]
            write_run(results, Job("train", arm.name, seed, 1e-3), curve)
