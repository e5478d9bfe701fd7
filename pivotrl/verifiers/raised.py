"""Where an exception was raised, for the one line that a person reads."""

import sys
from pathlib import PurePath
from types import TracebackType

MOST_FRAMES = 100_000
"""Frames that are walked at most."""


def place_of(error: BaseException, module: str) -> str:
    """`mine.py:12`, the innermost frame of the exception; behind it, as in `mine.py:12, in decoder.py:337`, where the
    module's own code called what raised. Empty where nothing is known. File names only: paths are a machine's own.

    Args:
        module: name of the module that holds the user's code.
    """
    own = getattr(sys.modules.get(module), "__file__", None)
    inner = mine = ""
    step: TracebackType | None = error.__traceback__
    for _ in range(MOST_FRAMES):
        if step is None:
            break
        path = step.tb_frame.f_code.co_filename
        inner = f"{PurePath(path).name}:{step.tb_lineno}"
        if path == own:
            mine = inner
        step = step.tb_next
    return inner if mine in ("", inner) else f"{mine}, in {inner}"
