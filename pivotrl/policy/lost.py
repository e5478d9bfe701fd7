"""A rank whose peer is gone: how its error is told from others, and what one line says of it.

gloo and NCCL report a dead peer as a broken connection, and a stuck one as a time-out after `parallel.timeout_seconds`.
Neither says which rank it was: the launcher does, or the ranks that are left find out by the store that they met in.
"""

import os
import re
import signal
import sys
import time
from pathlib import Path

NOTES = "PIVOTRL_LOST_NOTES"
"""Environment variable: where a rank leaves its line for the `--ranks` launcher, which says it with the lost rank's
name and the reason of its end. Unset under other launchers: the rank prints the line itself."""
_ANSWER_SECONDS = 3.0
_LOOKS_LOST = re.compile(
    r"connection (closed|reset|refused)|broken pipe|socket (timeout|closed)|timed out waiting|"
    r"application timeout|nccl.*(remote|aborted|system error)|watchdog",
    re.IGNORECASE,
)


def is_lost(error: BaseException) -> bool:
    """Whether an error of a collective says that another rank is gone or stuck."""
    import torch.distributed as dist

    if isinstance(error, OSError | ValueError):
        return False
    network = isinstance(error, dist.DistError)
    return network or (isinstance(error, RuntimeError) and bool(_LOOKS_LOST.search(str(error))))


def line(error: BaseException) -> str:
    """What this rank was at when it lost another one: "in the refit of step 3 (Connection closed by peer ...)"."""
    phases = getattr(error, "__notes__", None) or ["while it started"]
    words = re.sub(r"\[[^\]]*\.(cc|cpp|h):\d+\] *", "", str(error)).strip() or type(error).__name__
    return f"{phases[0]} ({words.splitlines()[0].split('. ')[0][:160]})"


def tell(name: str, error: BaseException) -> None:
    """Say once what happened and what to do: to the launcher where it speaks for the ranks, else on this terminal."""
    rank = int(os.environ.get("RANK", "0"))
    if folder := os.environ.get(NOTES):
        Path(folder, f"lost_{rank}").write_text(line(error))
        return
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # torchrun ends the others at once, and gives them 30 s
    missing = _without_answer()
    who = f"rank {', '.join(map(str, missing))}" if missing else "another rank"
    print(
        f"{name}: rank {rank} lost {who} {line(error)}; what that rank said last is in its own output. "
        "What was saved is kept: start again",
        file=sys.stderr,
        flush=True,
    )


def _without_answer() -> list[int]:
    """The ranks that do not notice a loss within a few seconds; at most 8 of them. Nothing where the store is gone."""
    import torch.distributed as dist

    try:
        store, world = dist.distributed_c10d._get_default_store(), dist.get_world_size()
        store.set(f"lost/{dist.get_rank()}", "1")
        until = time.monotonic() + _ANSWER_SECONDS
        while (left := [rank for rank in range(world) if not store.check([f"lost/{rank}"])]) and (
            time.monotonic() < until
        ):
            time.sleep(0.1)
    except (RuntimeError, ValueError):  # it was on the machine that is gone, or was not reached yet
        return []
    return left[:8]
