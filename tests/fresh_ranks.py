"""One rank of test_refresh.py: train with fresh pivots, then again from the checkpoint in the middle.

Usage (under torchrun): fresh_ranks.py FOLDER [section.key=value ...]
"""

import dataclasses
import shutil
import sys
from pathlib import Path

import torch.distributed as dist

from pivotrl.config import load_config
from pivotrl.pivots.selection import select_pivots
from pivotrl.session import open_session
from pivotrl.train import train


def main() -> None:
    folder = Path(sys.argv[1])
    straight, resumed = folder / "straight", folder / "resumed"
    config = load_config("configs/demo_cpu.yaml", [f"output={straight}", *sys.argv[2:]])
    session = open_session(config)
    select_pivots(config, session.engine, session.parser, session.template, straight / "pivots")
    train(session)
    if session.world.rank == 0:
        shutil.copytree(straight, resumed)
        last = resumed / "checkpoints" / f"step_{config.training.steps:06d}"
        shutil.rmtree(last)
        (before,) = (resumed / "checkpoints").glob("step_*")
        (resumed / "checkpoints" / "latest").write_text(before.name)
    dist.barrier()
    train(dataclasses.replace(session, config=config.model_copy(update={"output": str(resumed)})))


if __name__ == "__main__":
    main()
