"""Fresh pivots against the selection's, on the demo: the share of groups with signal at equal total samples.

    python tools/bench_fresh.py [--out FOLDER] [--steps 60] [--json] [section.key=value ...]

Selects the demo's pivots once, trains on them twice (static; fresh.enabled=true), and compares the last steps of both.
Total samples are those of training and of re-profiling; the fresh run is cut off where it has spent as many as the
static one has in all its steps. Killed, it continues. Overrides go to both runs, `fresh.` ones do nothing in the first.
"""

import argparse
import json
import shutil
import subprocess
import sys
from pathlib import Path
from statistics import fmean

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from pivotrl.command import run_command

ROOT = Path(__file__).resolve().parents[1]
CONFIG = "configs/demo_cpu.yaml"
TRAJECTORIES, LAST = 120, 10
TUNED = ("fresh.memory=0.8", "fresh.every=5")
"""The demo's policy is another one after ten steps; defaults are for policies that move slowly."""


def rows_of(run: Path) -> list[dict]:
    path = run / "metrics.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def total_samples(rows: list[dict]) -> int:
    """Of training and of re-profiling, up to the last row."""
    return sum(int(row["samples"]) for row in rows) + int(rows[-1].get("profiling_samples", 0))


def within(rows: list[dict], budget: int) -> list[dict]:
    """The steps of a run that fit into a budget of total samples."""
    return [row for index, row in enumerate(rows) if total_samples(rows[: index + 1]) <= budget]


def summary(rows: list[dict]) -> dict[str, float]:
    """What a run has come to in its last steps; the share of all its samples that were of groups with signal."""
    return {
        "steps": len(rows),
        "samples": total_samples(rows),
        "profiling_samples": int(rows[-1].get("profiling_samples", 0)),
        "signal_share_first": fmean(row["signal_share"] for row in rows[:LAST]),
        "signal_share_last": fmean(row["signal_share"] for row in rows[-LAST:]),
        "useful_samples_share": sum(row["signal_share"] * row["samples"] for row in rows) / total_samples(rows),
        "reward_last": fmean(row["reward"] for row in rows[-LAST:]),
    }


def compare(static: list[dict], fresh: list[dict]) -> dict[str, dict[str, float] | float]:
    """Both runs at equal total samples.

    Raises:
        ValueError: a run has too few steps to say how it ends.
    """
    budget = min(total_samples(static), total_samples(fresh))
    found = {"static": within(static, budget), "fresh": within(fresh, budget)}
    for name, rows in found.items():
        if len(rows) < 2 * LAST:
            raise ValueError(f"--steps: the {name} run has {len(rows)} steps in the budget; at least {2 * LAST} tell")
    result = {name: summary(rows) for name, rows in found.items()}
    last = [result[name]["signal_share_last"] for name in ("static", "fresh")]
    return result | {"ratio": last[1] / last[0] if last[0] else float("inf")}


def table(result: dict) -> str:
    keys = list(result["static"])
    lines = [f"{'':22}{'static':>10}{'fresh':>10}"]
    lines += [f"{key:22}{result['static'][key]:10.4g}{result['fresh'][key]:10.4g}" for key in keys]
    return "\n".join([*lines, f"share of groups with signal in the last {LAST} steps: {result['ratio']:.2f}x"])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("runs/bench_fresh"), help="default: runs/bench_fresh")
    parser.add_argument("--steps", type=int, default=60, help="of both runs (default 60)")
    parser.add_argument("--json", action="store_true", help="the result as JSON")
    parser.add_argument("overrides", nargs="*", metavar="section.key=value", help="laid over the demo's configuration")
    options = parser.parse_args()

    def start(*arguments: str) -> None:
        done = subprocess.run([sys.executable, *arguments], cwd=ROOT, check=False)
        if done.returncode:
            raise ValueError(f"{' '.join(arguments[:2])} ended with {done.returncode}; what it said stands above")

    def work() -> None:
        from pivotrl.demo.trajectories import write

        out = options.out.resolve()
        file = out / "trajectories.jsonl"
        common = [
            f"trajectories.files=[{file}]",
            f"training.steps={options.steps}",
            "checkpoint.every=10",
            "telemetry.tensorboard=false",
            *TUNED,
            *options.overrides,
        ]
        if not file.exists():
            write(file, TRAJECTORIES, "train")
        if not (out / "pivots" / "summary.json").exists():
            words = ["--config", CONFIG, "--ranks", "2", "--out", str(out / "pivots")]
            start("tools/select_pivots.py", *words, *common)
        for name in ("static", "fresh"):
            run = out / name
            if not (run / "pivots").exists():
                shutil.copytree(out / "pivots", run / "pivots")
            mine = [f"output={run}", f"fresh.enabled={str(name == 'fresh').lower()}"]
            if len(rows_of(run)) < options.steps:
                start("-m", "pivotrl.train", "--ranks", "2", "--config", CONFIG, *common, *mine)
        result = compare(rows_of(out / "static"), rows_of(out / "fresh"))
        print(json.dumps(result, indent=2) if options.json else table(result))

    return run_command("bench_fresh", [__file__], 1, work)


if __name__ == "__main__":
    sys.exit(main())
