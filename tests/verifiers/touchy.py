"""Verifiers that do with a model's text what none may do; each is to be caught."""

import ast
import base64
import contextlib
import ctypes
import fnmatch
import importlib
import os
import pickle
import re
import socket
import subprocess
import sys
from pathlib import Path

from pivotrl.verifiers.base import Verdict, Verifier


def opens(text):
    open(text).close()


def looks(text):
    Path(text).exists()


def lists(text):
    os.listdir(text)


def compiles(text):
    compile(text, "x", "exec")


def executes(text):
    exec(text, {"__builtins__": {}})


def evaluates(text):
    eval(text, {"__builtins__": {}})


def imports(text):
    importlib.import_module(re.sub(r"\W", "", text) or "x")


def searches(text):
    re.search(text, "a")


def globs(text):
    fnmatch.fnmatch("a", text)


def runs(text):
    subprocess.run([sys.executable, "-c", ""], check=False) if len(text) == 10 else None


def unpickles(text):
    pickle.loads(base64.b64decode(text, validate=True).replace(b"cos\nsystem", b"cbuiltins\nlen"))


def connects(text):
    with contextlib.closing(socket.socket()) as found:
        found.settimeout(0.01)
        found.connect(("127.0.0.1", 9))


def reads_memory(text):
    ctypes.string_at(text.encode(), 1)


def parses(text):
    """Allowed."""
    ast.parse(text)


class Touchy(Verifier):
    def __init__(self, params):
        self.act = None

    def verify(self, attempt, params=None):
        for item in attempt.items:
            text = item.get("content")
            if isinstance(text, str):
                with contextlib.suppress(Exception):
                    type(self).act(text)
        return Verdict(0.0, "looked")


ACTS = [
    opens,
    looks,
    lists,
    compiles,
    executes,
    evaluates,
    imports,
    searches,
    globs,
    runs,
    unpickles,
    connects,
    reads_memory,
    parses,
]
for _act in ACTS:
    globals()[_act.__name__.title().replace("_", "")] = type(
        _act.__name__, (Touchy,), {"act": staticmethod(_act), "__init__": lambda self, params: None}
    )
