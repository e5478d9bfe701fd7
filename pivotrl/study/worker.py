"""One worker of the study: takes open jobs until the plan has none (`python -m pivotrl.study.run` starts it)."""

import argparse
import os
import sys
import threading
import time
from pathlib import Path

from pivotrl.command import run_command

WAIT_SECONDS = 3.0


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True, help="folder of the study")
    parser.add_argument("--base", type=Path, required=True, help="model that every arm starts from")
    parser.add_argument("--quick", action="store_true", help="the small sizes")
    parser.add_argument("--settled", action="store_true", help="the second contest's")
    options = parser.parse_args()
    end_with_parent()
    return run_command("pivotrl.study.worker", ["-m", "pivotrl.study.worker"], 1, lambda: work(options))


def work(options: argparse.Namespace) -> None:
    """Claim an open job, do it, look again; wait where all that is open is claimed by others."""
    from pivotrl.study.plan import sizes_of
    from pivotrl.study.results import Claim, Results
    from pivotrl.study.work import Worker

    results = Results(options.out, sizes_of(options.quick, options.settled))
    worker = Worker(results, options.base)
    while jobs := results.open_jobs():
        for job in jobs:
            with Claim(results.folder, job) as claim:
                if claim.taken and not results.done(job):
                    print(f"== {time.strftime('%H:%M:%S')} {job}", flush=True)
                    worker.do(job)
                    break
        else:
            time.sleep(WAIT_SECONDS)


def end_with_parent() -> None:
    """End this process when the one that started it does, however that ends: what is on disk is always whole."""
    parent = os.getppid()

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(1.0)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


if __name__ == "__main__":
    sys.exit(main())
