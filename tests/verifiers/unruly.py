"""A user's verifier that does to its process what the attempt's text says."""

import ctypes
import os
import re
import sys
import time

from pivotrl.verifiers.base import Verdict, Verifier

MUCH = 2**30  # as `bytes`, zeros that the system provides when they are read, which nothing does


class Unruly(Verifier):
    def __init__(self, params):
        self.refused = params.get("refused")
        if params.get("breaks_in_worker") and os.environ.get("UNRULY_POOL") != str(os.getpid()):
            raise OSError("no such machine")

    def verify(self, attempt, params=None):
        if params and "treshold" in params:
            raise ValueError("verifier.params.treshold: there is none")
        text = attempt.text or ""
        act = getattr(self, f"do_{text}", None)
        found = act() if act else None
        return found or Verdict(float(attempt.items == ["right"]), f"said {text[:20]}", str(len(text)))

    def do_sleep(self):
        time.sleep(60)

    def do_spin(self):
        while True:
            pass

    def do_spin_in_c(self):
        re.match(r"(a+)+$", "a" * 64 + "b")

    def do_segfault(self):
        ctypes.string_at(0)

    def do_eat_memory(self):
        return [bytes(MUCH) for _ in range(64)]

    def do_raise(self):
        raise KeyError("\ud800 oh")

    def do_value_error(self):
        return float("no number")

    def do_exit(self):
        sys.exit(3)

    def do_die(self):
        os._exit(3)

    def do_print(self):
        print("this is no verdict")
        sys.stdout.flush()

    def do_read(self):
        assert sys.stdin.read() == ""

    def do_wrong(self):
        return Verdict(2.0, "too much")

    def do_nan(self):
        return Verdict(float("nan"), "nothing")

    def do_none(self):
        return Verdict(0.0, "")

    def do_odd(self):
        return "a string"
