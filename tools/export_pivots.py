"""Write pivots as NVIDIA NeMo-Gym rows: python tools/export_pivots.py PIVOTS --out ROWS.jsonl

PIVOTS is the folder of a selection, or its pivots.jsonl.
"""

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from pivotrl.command import run_alone


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pivots", metavar="PIVOTS", help="folder of a selection, or a pivots.jsonl")
    parser.add_argument("--out", required=True, metavar="ROWS.jsonl", help="file to write")
    arguments = parser.parse_args()

    def work() -> None:
        from pivotrl.pivots.export import export
        from pivotrl.pivots.report import why_no_pivots

        rows = export(arguments.pivots, arguments.out)
        print(f"{rows:,} rows in {arguments.out}" + (f": {why_no_pivots(arguments.pivots)}" if not rows else ""))

    return run_alone("tools/export_pivots.py", work)


if __name__ == "__main__":
    sys.exit(main())
