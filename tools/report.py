"""Write a run's report, one HTML file, while it runs or afterwards: python tools/report.py RUN_DIR [--out FILE]"""

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from pivotrl.command import run_alone


def main() -> int:
    parser = argparse.ArgumentParser(prog="tools/report.py", description=__doc__)
    parser.add_argument("run_dir", help="folder of a run (`output` in its configuration)")
    parser.add_argument("--out", help="HTML file to write (RUN_DIR/report.html)")
    arguments = parser.parse_args()

    def work() -> None:
        from pivotrl.telemetry.report import write_report

        print(write_report(arguments.run_dir, arguments.out))

    return run_alone("tools/report.py", work)


if __name__ == "__main__":
    sys.exit(main())
