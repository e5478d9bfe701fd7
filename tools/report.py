"""Write a run's report, one HTML file, while it runs or afterwards: python tools/report.py RUN_DIR [--out FILE]"""

import argparse
import sys


def main() -> int:
    parser = argparse.ArgumentParser(prog="tools/report.py", description=__doc__)
    parser.add_argument("run_dir", help="folder of a run (`output` in its configuration)")
    parser.add_argument("--out", help="HTML file to write (RUN_DIR/report.html)")
    arguments = parser.parse_args()
    from pivotrl.telemetry.report import write_report

    try:
        print(write_report(arguments.run_dir, arguments.out))
    except (ValueError, OSError) as error:
        print(f"tools/report.py: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
