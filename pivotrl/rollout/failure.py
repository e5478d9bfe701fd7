"""vLLM's errors in the middle of a step, as one line of this project's."""

import contextlib
import traceback
from collections.abc import Iterator
from pathlib import Path

from pivotrl.policy.lost import is_lost


class EngineError(RuntimeError):
    """vLLM raised while this rank's engine worked. The engine is not to be used again."""


@contextlib.contextmanager
def engine_at_work(rank: int, doing: str) -> Iterator[None]:
    """Around calls of vLLM.

    Raises:
        EngineError: for whatever vLLM raises, with its type, its words and its place; what says that another rank is
            gone is left as it is.
    """
    try:
        yield
    except Exception as error:
        if is_lost(error):
            raise
        frame = traceback.extract_tb(error.__traceback__)[-1]
        place = "/".join(Path(frame.filename).parts[-3:])
        words = (str(error).strip().splitlines() or ["no words"])[0][:200]
        raise EngineError(
            f"the engine of rank {rank} failed while it {doing}: {type(error).__name__}: {words} ({place}:"
            f"{frame.lineno}); finished groups are in the bank: start again, and PIVOTRL_TRACEBACK=1 shows where it was"
        ) from error
