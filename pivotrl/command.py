"""What the commands that run on several ranks share: starting them, and one line for a user's mistake."""

import argparse
import os
import sys
import time
from collections.abc import Callable

from pivotrl.quiet import quiet

_RANK_0_SPEAKS_SECONDS = 10.0


def add_ranks(parser: argparse.ArgumentParser, default: int = 1) -> None:
    """Add `--ranks N`, for one machine; under torchrun or srun it is not needed and not read."""
    parser.add_argument(
        "--ranks",
        type=int,
        default=default,
        metavar="N",
        help=f"processes to start on this machine (default {default})",
    )


def run_command(name: str, command: list[str], ranks: int, work: Callable[[], None]) -> int:
    """Do the work of a command on every rank.

    Args:
        name: what stands before a mistake on the terminal.
        command: how Python starts it, `["-m", "pivotrl.train"]` or `["tools/x.py"]`, without its arguments.
        ranks: how many ranks to start where no launcher has.
        work: what one rank does.

    Returns:
        The exit code: 0; 2 after a ValueError (a user's mistake) and 1 after a RefitError, each said in one line.
    """
    quiet()
    if ranks > 1 and "RANK" not in os.environ:
        from pivotrl.policy.local_ranks import run_ranks

        return run_ranks(ranks, [*command, *sys.argv[1:]])
    from pivotrl.rollout.plan import RefitError

    try:
        work()
    except (ValueError, RefitError) as error:
        rank = os.environ.get("RANK", "0")
        if rank != "0":
            # The launcher ends every rank when the first one fails: let rank 0, which mostly knows the same, speak.
            time.sleep(_RANK_0_SPEAKS_SECONDS)
        print(f"{name}: {error}" + (f" (rank {rank})" if rank != "0" else ""), file=sys.stderr, flush=True)
        return 2 if isinstance(error, ValueError) else 1
    return 0
