"""What sequential profiling saves and what it loses, against K samples at every turn: the whole curve.

    python tools/simulate_profiling.py [--distribution published|random_turns|PROFILE.jsonl] [--json]

published: the pass rates of NVIDIA's tau-bench file; random_turns: the same with turns that always pass added, until
71 % carry no signal, as the paper found of random turns; PROFILE.jsonl: the recorded rewards of a selection with
pivots.profiling=fixed, replayed in their order.
"""

import argparse
import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from pivotrl.command import run_command


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--distribution", default="published", metavar="NAME|FILE", help="default: published")
    parser.add_argument("--max-mean", type=float, default=0.6, help="lambda (default 0.6)")
    parser.add_argument("--turns", type=int, default=10_000, help="of a named distribution (default 10000)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", action="store_true", help="rows as JSON")
    options = parser.parse_args()
    if not 0 < options.max_mean <= 1:
        parser.error(f"--max-mean is {options.max_mean:g}: write a number above 0 and up to 1")
    if options.turns < 1:
        parser.error(f"--turns is {options.turns}: write a number of at least 1")

    def work() -> None:
        from pivotrl.pivots.distributions import turns_of
        from pivotrl.pivots.simulation import curve, table

        turns = turns_of(options.distribution, options.turns, options.seed)
        outcomes = list(curve(turns, options.max_mean))
        if options.json:
            print(json.dumps([row.to_json() for row in outcomes], indent=2))
            return
        print(f"{options.distribution}: {len(turns):,} turns, K = {len(turns[0])}, lambda = {options.max_mean:g}")
        print(table(outcomes))
        print("* what pivots.profiling names; share, recall, signal: against the fixed K; precision: of its pivots")

    return run_command("simulate_profiling", [__file__], 1, work)


if __name__ == "__main__":
    sys.exit(main())
