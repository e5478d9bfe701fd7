"""Verdicts per second: of each verifier on one core, and of a pool of worker processes.

  python tools/bench_verifiers.py [--golden FOLDER] [--only tool_call,shell:robust] [--pool 2] [--quick]

A row is timed over repeats; `median/s` is 1 / the median row's seconds, `mean/s` the rows' rate together. Both profit
from what verifiers remember of the expert's half, as the K samples of a turn do, and of a completion that came before.
`new/s` is the median row's when nothing is remembered: every cache is emptied before each verdict. The pool's part
judges the same jobs in this process, with one worker and with all, in turns.
"""

import argparse
import functools
import gc
import json
import os
import platform
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

REPOSITORY = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(REPOSITORY))

from pivotrl.verifiers.attempt import Attempt  # noqa: E402
from pivotrl.verifiers.base import Verifier, VerifierConfig  # noqa: E402
from pivotrl.verifiers.bench_cases import cases  # noqa: E402
from pivotrl.verifiers.pool import Job, VerdictPool  # noqa: E402
from pivotrl.verifiers.registry import VERIFIERS, build_verifier  # noqa: E402

Cache = functools._lru_cache_wrapper

BARS = {"tool_call:nemo_gym": 20_000, "swe_pivot:nemo_gym": 2_000, "terminal:nemo_gym": 2_000, "shell:robust": 1_000}
"""Verdicts per second (`median/s`) that the project promises."""
GOLDEN = {
    "tool_call": "tool_call",
    "name_only": "tool_call",
    "exact": "tool_call",
    "search": "tool_call",
    "swe_pivot": "swe_pivot",
    "swe": "swe_pivot",
    "terminal": "terminal",
    "terminal_functional": "terminal",
}
"""The labelled rows that a verifier is timed on, where the folder is there."""
POOLED = ("tool_call:nemo_gym", "terminal:nemo_gym", "swe:robust", "shell:robust")
SAMPLES = 16
"""Jobs in a row that share a turn in the pool's part, as a group of rollouts does."""


class Figures(NamedTuple):
    median: float
    mean: float
    new: float
    slowest: float
    """Seconds of the slowest row."""


ANY_TEXT = re.compile(r'("[^"\\]* [^"\\]*)("\s*[,}])')
"""A value of two words or more in the text of some arguments."""


def parse(argv: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    default = REPOSITORY.parent / "shared" / "data" / "verifier_golden"
    parser.add_argument("--golden", type=Path, default=default, help="folder of labelled rows (else built-in cases)")
    parser.add_argument("--only", help="`name` or `name:preset`, with commas (default: all but judge)")
    parser.add_argument("--pool", type=int, default=os.cpu_count(), metavar="W", help="workers (default: the cores)")
    parser.add_argument(
        "--jobs", type=int, default=20_000, metavar="N", help="the pool's jobs, at most (default 20000)"
    )
    parser.add_argument("--quick", action="store_true", help="a few seconds in all; the figures are rough")
    return parser.parse_args(argv)


def chosen(only: str | None) -> list[VerifierConfig]:
    """Raises ValueError."""
    every = [f"{name}:{preset}" for name, presets in VERIFIERS.items() for preset in presets if name != "judge"]
    names = only.split(",") if only else every
    labels = [label for label in every if label in names or label.partition(":")[0] in names]
    if not labels:
        raise ValueError(f"--only: {only!r} names none of {', '.join(every)}")
    return [VerifierConfig(name=name, preset=preset) for name, _, preset in (label.partition(":") for label in labels)]


def jobs_of(config: VerifierConfig, golden: Path) -> tuple[list[Job], str]:
    """What to judge, and where it is from. A golden row's parameters are for the preset that it was labelled with."""
    path = golden / f"{GOLDEN.get(config.name)}.jsonl"
    if not path.is_file():
        return [(attempt, None) for attempt in cases(config.name)], "built-in"
    jobs = []
    for line in path.read_text().splitlines():
        row = json.loads(line)
        expert = row.get("expected_action") or {"type": "message", "content": row["expected_answer"]}
        own = row["params"] if config.preset == "nemo_gym" and GOLDEN[config.name] == config.name else None
        jobs.append((Attempt(expert, row["response"], metadata=row.get("metadata", {})), own))
    return jobs, "golden"


def one_core(config: VerifierConfig, jobs: list[Job], quick: bool) -> Figures:
    """Time each row in this process: the best of three turns over enough repeats."""
    verifier = build_verifier(config)
    for job in jobs:
        verifier.verify(*job)  # what is loaded once is loaded
    caches = [found for found in gc.get_objects() if isinstance(found, Cache) and is_ours(found)]
    turns = range(1 if quick else 3)
    repeats = 1 if quick else 5
    row_seconds = [min(timed(verifier, job, repeats) for _ in turns) for job in jobs]
    new_seconds = [min(timed(verifier, job, 1, caches) for _ in turns) for job in jobs]
    typical, new = statistics.median(row_seconds), statistics.median(new_seconds)
    return Figures(1 / typical, len(jobs) / sum(row_seconds), 1 / new, max(row_seconds))


def timed(verifier: Verifier, job: Job, repeats: int, caches: Sequence[Cache] = ()) -> float:
    """Seconds of a verdict, the mean of `repeats`; `caches` are emptied before."""
    for cache in caches:
        cache.cache_clear()
    begin = time.perf_counter()
    for _ in range(repeats):
        verifier.verify(*job)
    return (time.perf_counter() - begin) / repeats


def is_ours(cache: object) -> bool:
    return str(getattr(cache, "__module__", "")).startswith("pivotrl.")


def pooled(config: VerifierConfig, jobs: list[Job], workers: int, count: int, quick: bool) -> list[float]:
    """Verdicts per second in this process, with one worker, and with `workers`: the best of three turns."""
    work = [job for job in jobs for _ in range(SAMPLES)]
    work = (work * -(-count // len(work)))[:count]
    work = [(replace(attempt, items=anew(attempt.items, number)), own) for number, (attempt, own) in enumerate(work)]
    pools = [VerdictPool(config, number, 60.0) for number in (0, 1, workers)]
    best = [0.0] * len(pools)
    for turn in range(2 if quick else 4):
        for place, pool in enumerate(pools):
            begin = time.perf_counter()
            pool.judge(work)
            if turn:  # in the first, workers start
                best[place] = max(best[place], len(work) / (time.perf_counter() - begin))
    for pool in pools:
        pool.close()
    return best


def anew(items: list, number: int) -> list:
    """The items with a number put into what they say, so that no two jobs are alike and nothing is remembered."""
    fresh = []
    for item in items:
        if item.get("type") == "function_call" and isinstance(item.get("arguments"), str):
            item = item | {"arguments": ANY_TEXT.sub(rf"\1 {number}\2", item["arguments"], count=1)}
        elif item.get("type") == "message" and isinstance(item.get("content"), str):
            item = item | {"content": item["content"].replace('"keystrokes": "', f'"keystrokes": "echo {number}; ', 1)}
        fresh.append(item)
    return fresh


def header() -> str:
    model = platform.processor() or platform.machine()
    if Path("/proc/cpuinfo").is_file():
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        model = next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), model)
    command = ["git", "-C", str(REPOSITORY), "describe", "--always", "--dirty"]
    commit = subprocess.run(command, capture_output=True, text=True).stdout.strip() or "unknown"
    return (
        f"{model}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}; Python {platform.python_version()}; "
        f"{time.strftime('%Y-%m-%d')}, commit {commit}"
    )


def run(arguments: argparse.Namespace) -> None:
    configs = chosen(arguments.only)
    print(header())
    print(f"{'one core':30} {'rows':>14} {'median/s':>10} {'mean/s':>10} {'new/s':>10} {'slowest':>10}")
    work: dict[str, tuple[VerifierConfig, list[Job], float]] = {}
    for config in configs:
        label = f"{config.name}:{config.preset}"
        jobs, source = jobs_of(config, arguments.golden)
        if arguments.quick:
            jobs = jobs[:20]
        found = one_core(config, jobs, arguments.quick)
        work[label] = config, jobs, found.mean
        bar = BARS.get(label)
        mark = "" if not bar else f"  bar {bar:,}: {'met' if found.median >= bar else 'MISSED'}"
        print(
            f"{label:30} {len(jobs):5} {source:>8} {found.median:10,.0f} {found.mean:10,.0f} {found.new:10,.0f} "
            f"{found.slowest * 1e3:7.2f} ms{mark}",
            flush=True,
        )
    print("median/s: the median row, of rows judged before; new/s: nothing remembered; bars stand at what was promised")
    print(f"\n{'pool':30} {'here/s':>14} {'1 worker/s':>10} {f'{arguments.pool} workers/s':>12} {'ratio':>7}")
    for label in POOLED:
        if label in work:
            config, jobs, rate = work[label]
            count = 500 if arguments.quick else int(min(arguments.jobs, max(1000, 2 * rate)))
            here, one, many = pooled(config, jobs, arguments.pool, count, arguments.quick)
            print(f"{label:30} {here:14,.0f} {one:10,.0f} {many:12,.0f} {many / one:7.2f}", flush=True)
    print(f"ratio: {arguments.pool} workers over 1; {SAMPLES} jobs in a row share a turn, each with text of its own")


def main() -> int:
    try:
        run(parse(sys.argv[1:]))
    except ValueError as error:
        print(f"bench_verifiers: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
