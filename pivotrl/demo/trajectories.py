"""Writes the expert's trajectories as OpenAI chat JSON Lines.

    python -m pivotrl.demo.trajectories --out train.jsonl --tasks 100 --seed 1 [--style chatty]

Every row is {"id", "messages", "tools", "reward": 1.0}. Take another seed for held-out tasks: the streams of two
seeds share nothing. The same seed gives the same bytes. `--style` words the same actions otherwise (`style.py`).
"""

import argparse
import json
import os
from collections.abc import Iterator
from pathlib import Path

from pivotrl.demo.expert import solve, success
from pivotrl.demo.style import STYLES, Style, restyle
from pivotrl.demo.tasks import make_task


def rows(tasks: int, seed: int | str, style: Style = "plain") -> Iterator[dict]:
    """The first `tasks` rows of stream `seed`."""
    for index in range(tasks):
        desk = solve(make_task(seed, index))
        assert success(desk), f"the expert fails {desk.task.id}"
        messages = restyle(desk.messages, style, desk.task.id)
        yield {"id": desk.task.id, "messages": messages, "tools": desk.tools, "reward": 1.0}


def write(out: Path, tasks: int, seed: int | str, style: Style = "plain") -> int:
    """Write `tasks` trajectories to `out` (whole file or nothing) -> the number of assistant turns in them."""
    out.parent.mkdir(parents=True, exist_ok=True)
    part = out.with_name(out.name + ".part")
    turns = 0
    with part.open("w", encoding="utf-8") as file:
        for row in rows(tasks, seed, style):
            turns += sum(message["role"] == "assistant" for message in row["messages"])
            file.write(json.dumps(row) + "\n")
    os.replace(part, out)
    return turns


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description="Write the desk expert's trajectories (OpenAI chat JSON Lines).")
    parser.add_argument("--out", type=Path, required=True, help="the file to write")
    parser.add_argument("--tasks", type=int, default=100, help="number of tasks, one trajectory each (default 100)")
    parser.add_argument(
        "--seed", type=int, default=1, help="task stream; use another one for held-out tasks (default 1)"
    )
    parser.add_argument("--style", choices=STYLES, default="plain", help="the expert's manner (default plain)")
    options = parser.parse_args()
    if options.tasks < 1:
        parser.error(f"--tasks is {options.tasks}: write a number of at least 1")
    turns = write(options.out, options.tasks, options.seed, options.style)
    print(f"{options.out}: {options.tasks} trajectories, {turns} assistant turns, seed {options.seed}")


if __name__ == "__main__":
    main()
