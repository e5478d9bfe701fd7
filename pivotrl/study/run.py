"""The study: every arm's sweep, its seeds and its tests, then the page.

    bash tools/study.sh [--quick]
    python -m pivotrl.study.run --out runs/study [--quick] [--workers 2] [--page docs/study.md]
    python -m pivotrl.study.run --settled runs/study --out runs/study_settled [--quick] [--page docs/study_settled.md]

Workers are processes of one rank each that take open jobs from the plan; what is on disk says what is left, so the
command may be killed at any moment and started again. `--page-only` writes the page from what is there. `--settled` is
a second, smaller contest, whose base is a model that the first one trained.
"""

import argparse
import subprocess
import sys
import time
from pathlib import Path

from pivotrl.command import run_alone

POLL_SECONDS = 5.0
REPORT_SECONDS = 60.0
STOP_SECONDS = 60.0
"""For a worker that is asked to stop to end in."""


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=None, help="folder of the runs (runs/study, or runs/study_quick)")
    parser.add_argument("--page", type=Path, default=None, help="page to write (default: in --out)")
    parser.add_argument(
        "--base", type=Path, default=Path("pivotrl/study/base"), help="model that every arm starts from"
    )
    parser.add_argument(
        "--settled", type=Path, default=None, metavar="STUDY", help="the second contest, from this first"
    )
    parser.add_argument("--workers", type=int, default=2, help="processes side by side, one core each (default 2)")
    parser.add_argument("--quick", action="store_true", help="minutes instead of hours, to see that it works")
    parser.add_argument("--page-only", action="store_true", help="run nothing, write the page from what is there")
    options = parser.parse_args()
    if options.workers < 1:
        parser.error(f"--workers is {options.workers}: write a number of at least 1")
    name = "study" + ("_settled" if options.settled else "") + ("_quick" if options.quick else "")
    options.out = options.out or Path("runs") / name
    options.page = options.page or options.out / ("study_settled.md" if options.settled else "study.md")
    return run_alone("pivotrl.study.run", lambda: work(options))


def work(options: argparse.Namespace) -> None:
    """Prepare, run what is open, write the page."""
    from pivotrl.demo import trajectories
    from pivotrl.study.page import write_page
    from pivotrl.study.plan import sizes_of
    from pivotrl.study.results import Results
    from pivotrl.study.settings import STREAM, TRAJECTORIES
    from pivotrl.study.settled import export_base

    sizes = sizes_of(options.quick, options.settled is not None)
    if options.settled:
        options.base = options.out / "base_model"
    results = Results(options.out, sizes)
    if options.settled:
        options.out.mkdir(parents=True, exist_ok=True)
        export_base(options.settled, sizes, options.base)
    if not options.page_only:
        if not (options.base / "config.json").exists():
            raise ValueError(f"--base: {options.base} is no model folder; python -m pivotrl.study.make_base makes one")
        if not (options.out / TRAJECTORIES).exists():
            trajectories.write(options.out / TRAJECTORIES, sizes.trajectories, STREAM, "chatty")
        supervise(results, options)
    for path in write_page(results, options.page):
        print(f"wrote {path}")


def supervise(results, options: argparse.Namespace) -> None:
    """Start the workers, say how far they are, and wait for the last. ValueError where one fails."""
    from pivotrl.study.plan import count

    logs = options.out / "logs"
    logs.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "pivotrl.study.worker", "--out", str(options.out), "--base", str(options.base)]
    command += ["--quick"] if options.quick else []
    command += ["--settled"] if options.settled else []
    if not results.open_jobs():
        return
    workers = []
    for number in range(options.workers):
        log = (logs / f"worker_{number}.log").open("a")
        workers.append(subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT))
        log.close()
    total, before, began, told = count(results.sizes), results.finished(), time.monotonic(), 0.0
    try:
        while any(worker.poll() is None for worker in workers):
            failed = [number for number, worker in enumerate(workers) if worker.poll()]
            if failed:
                log = logs / f"worker_{failed[0]}.log"
                last = "\n".join(log.read_text(errors="replace").splitlines()[-5:])
                raise ValueError(f"worker {failed[0]} ended with {workers[failed[0]].returncode}; {log} ends: {last}")
            if time.monotonic() - told > REPORT_SECONDS:
                told, finished = time.monotonic(), results.finished()
                print(progress(finished, total, before, time.monotonic() - began), flush=True)
            time.sleep(POLL_SECONDS)
    finally:
        for worker in workers:
            if worker.poll() is None:
                worker.terminate()
                try:
                    worker.wait(STOP_SECONDS)
                except subprocess.TimeoutExpired:
                    worker.kill()
                    worker.wait()


def progress(finished: int, total: int, before: int, seconds: float) -> str:
    """One line: jobs done, and the time left at the pace so far (jobs differ, so roughly)."""
    line = f"{finished} of {total} jobs, {seconds / 60:.0f} min"
    if finished > before:
        line += f", about {(total - finished) * seconds / (finished - before) / 60:.0f} min left"
    return line


if __name__ == "__main__":
    sys.exit(main())
