"""Measure policies on what training never saw, and compare them with the base model.

    python tools/evaluate.py --config CONFIG --ranks N [--policy NAME=SOURCE ...] [section.key=value ...]

SOURCE is a Hugging Face folder, a run's folder (its newest checkpoint), a checkpoint's folder, `FOLDER:step=N`, or
`step=N` of the configuration's own run. The base is `model.path`. The section `evaluation` says what is measured: turn
rewards on held-out trajectories, tasks in a live world, questions of other families. What was measured is kept in
OUTPUT/evaluation/parts: started again, after a kill or with one more policy, only the rest is done.
"""

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from pivotrl.command import add_ranks, run_command


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--config", required=True, help="YAML file of the run")
    parser.add_argument(
        "--policy", action="append", default=[], metavar="NAME=SOURCE", help="a policy to compare; as often as you like"
    )
    add_ranks(parser)
    parser.add_argument("overrides", nargs="*", metavar="section.key=value", help="laid over the file")
    arguments = parser.parse_intermixed_args()

    def work() -> None:
        from pivotrl.config import load_config
        from pivotrl.evaluation.command import run

        run(load_config(arguments.config, arguments.overrides), arguments.policy)

    return run_command("evaluate", [__file__], arguments.ranks, work)


if __name__ == "__main__":
    sys.exit(main())
