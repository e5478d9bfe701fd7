"""Each fault, as it is put into one rank of a training: by name, the rank it befalls and what happens there.

A fault waits for its step (0-based), so that the run has a checkpoint and rows of metrics before it.
"""

import contextlib
import os
import resource
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch.distributed as dist

from pivotrl.policy import checkpoint_write
from pivotrl.rollout import bank, refit, transport
from pivotrl.telemetry import metrics, observer


class Clock:
    """The step that this rank is in."""

    step = -1


def keep_the_clock() -> None:
    begin = observer.Observer.begin

    def counting(self: observer.Observer, step: int) -> Any:
        Clock.step = step
        return begin(self, step)

    observer.Observer.begin = counting


def before(owner: Any, name: str, step: int, act: Callable[..., None], call: int = 1) -> None:
    """Do `act`, with the arguments, before the `call`-th call of a function in a step."""
    original, calls = getattr(owner, name), [0]

    def wrapped(*args: Any, **kwargs: Any) -> Any:
        if Clock.step == step:
            calls[0] += 1
            if calls[0] == call:
                act(*args)
        return original(*args, **kwargs)

    setattr(owner, name, wrapped)


def around(owner: Any, name: str, step: int, manager: Callable[..., contextlib.AbstractContextManager]) -> None:
    """Be in `manager`, made with the arguments, during every call of a function in a step."""
    original = getattr(owner, name)

    def wrapped(*args: Any, **kwargs: Any) -> Any:
        with manager(*args) if Clock.step == step else contextlib.nullcontext():
            return original(*args, **kwargs)

    setattr(owner, name, wrapped)


def die(*_: Any) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def lose_a_tensor(policy: Any, engine: Any) -> None:
    del policy.shards._params["decoder.layers.1.self_attention.linear_proj.weight"]


def flip_a_bit(operations: list) -> None:
    next(one for one in operations if one.op is dist.isend).tensor[0] ^= 1


def engine_raises(engine: Any) -> Any:
    original, calls = engine.engine_core.get_output, [0]

    def raising() -> Any:
        calls[0] += 1
        if calls[0] == 4:
            raise RuntimeError("the kernel of layer 1 failed")
        return original()

    engine.engine_core.get_output = raising


@contextlib.contextmanager
def full(folder: Path, spare: int) -> Iterator[None]:
    """No room but for `spare` bytes: the disk is filled where it is a small one of the test's own; else no file of this
    process may grow beyond them."""
    disk = os.statvfs(folder)
    if disk.f_blocks * disk.f_frsize < 1 << 30:
        filler = folder / "filler"
        with filler.open("wb", buffering=0) as file, contextlib.suppress(OSError):
            while True:
                file.write(b"x" * 65536)
        os.truncate(filler, max(0, filler.stat().st_size - spare))
        yield  # and stays full
        return
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (spare, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


def put(fault: str, rank: int, run: Path, step: int) -> None:
    """Make `fault` happen in `step`, if it is this rank's."""
    keep_the_clock()
    if fault == "missing tensor" and rank == 1:
        before(refit, "refit", step, lose_a_tensor)
    elif fault == "flipped byte" and rank == 1:
        before(transport, "send", step, flip_a_bit)
    elif fault == "killed in refit" and rank == 1:
        before(transport.Transport, "_land", step, die)
    elif fault == "killed in generation" and rank == 1:
        before(bank.BankWriter, "append", step, die, call=2)
    elif fault == "killed in save" and rank == 1:
        before(checkpoint_write.Writing, "_write_bucket", step, die)
    elif fault == "killed at the end of save" and rank == 0:
        before(checkpoint_write.Writing, "finish", step, die)
    elif fault == "engine dies" and rank == 1:
        from pivotrl.rollout import generation

        before(generation, "run", step, lambda engine, *_: engine_raises(engine))
    elif fault == "full disk at bank" and rank == 0:
        around(bank.BankWriter, "append", step, lambda *_: full(run, 500))
    elif fault == "full disk at metrics" and rank == 0:
        around(metrics.MetricsWriter, "write", step, lambda *_: full(run, 300))
    elif fault == "full disk at save" and rank == 0:
        around(checkpoint_write.Writing, "write", step, lambda *_: full(run, 8192))
    elif fault == "hanging verifier":
        os.environ["FAULT_HANG"] = str(run / "hang")
        (run / "hang").touch()
