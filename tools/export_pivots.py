"""Write pivots as NVIDIA NeMo-Gym rows: python tools/export_pivots.py PIVOTS --out ROWS.jsonl

PIVOTS is the folder of a selection, or its pivots.jsonl.
"""

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pivots", metavar="PIVOTS", help="folder of a selection, or a pivots.jsonl")
    parser.add_argument("--out", required=True, metavar="ROWS.jsonl", help="file to write")
    arguments = parser.parse_args()
    from pivotrl.pivots.export import export

    try:
        print(f"{export(arguments.pivots, arguments.out):,} rows in {arguments.out}")
    except ValueError as error:
        print(f"tools/export_pivots.py: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
