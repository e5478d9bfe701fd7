"""Stacks of a rank that hangs: a rank that has not finished a step for long prints every thread's stack to its log."""

import faulthandler
import os
import signal
from typing import Self


class Watchdog:
    """Prints every thread's stack to standard error when `beat` was not called for `PIVOTRL_HANG_SECONDS`, and again
    after each such time; unset or 0: never. It ends nothing: the process group's own time-out does.

    SIGUSR2 to a rank prints its stacks at once.
    """

    def __init__(self, seconds: float | None = None) -> None:
        """
        Raises:
            ValueError: `PIVOTRL_HANG_SECONDS` is not a number.
        """
        text = os.environ.get("PIVOTRL_HANG_SECONDS") or "0"
        try:
            self._seconds = float(text) if seconds is None else seconds
        except ValueError:
            raise ValueError(f"PIVOTRL_HANG_SECONDS is {text!r}: write a number of seconds, or 0") from None

    def __enter__(self) -> Self:
        faulthandler.register(signal.SIGUSR2, all_threads=True)
        self.beat()
        return self

    def __exit__(self, *_: object) -> None:
        faulthandler.cancel_dump_traceback_later()
        faulthandler.unregister(signal.SIGUSR2)

    def beat(self) -> None:
        """Say that this rank is alive; the time starts anew."""
        if self._seconds > 0:
            faulthandler.dump_traceback_later(self._seconds, repeat=True)
