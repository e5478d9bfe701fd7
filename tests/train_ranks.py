"""One rank of test_train.py: select pivots where there are none yet, then train; as the demo does, on less.

Usage (under torchrun): train_ranks.py RUN_FOLDER [section.key=value ...]
"""

import sys
from pathlib import Path

from pivotrl.config import load_config
from pivotrl.pivots.selection import select_pivots
from pivotrl.session import open_session
from pivotrl.train import train


def main() -> None:
    run = Path(sys.argv[1])
    config = load_config("configs/demo_cpu.yaml", [f"output={run}", *sys.argv[2:]])
    session = open_session(config)
    if not (run / "pivots" / "summary.json").exists():
        select_pivots(config, session.engine, session.parser, session.template, run / "pivots")
    train(session)


if __name__ == "__main__":
    main()
