"""A user's verifier that hangs once: it judges as `tool_call` does until it finds the file that FAULT_HANG names."""

import contextlib
import os
import time

from pivotrl.verifiers.tool_call import ToolCallVerifier


class Hanging(ToolCallVerifier):
    def verify(self, attempt, params=None):
        with contextlib.suppress(KeyError, OSError):
            os.unlink(os.environ["FAULT_HANG"])
            time.sleep(600)
        return super().verify(attempt, params)
