"""What vLLM must find in this process before it is imported, and around its calls. The one place that sets it.

Environment variables (read by vLLM at import or at engine construction):

VLLM_ENABLE_V1_MULTIPROCESSING=0
    The engine runs inside this process: the refit reaches its weights, and nothing is pickled on the way to a result.
VLLM_CPU_OMP_THREADS_BIND=nobind
    Two ranks on one machine would otherwise both bind to the first cores, under torchrun's own thread count.
VLLM_LOGGING_LEVEL=ERROR
    A rank prints its progress, not the banners of a server. Set it beforehand to see them.
VLLM_NO_USAGE_STATS=1
    No call home from a training job.
"""

import contextlib
import logging
import os
import warnings
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import torch
import torch.distributed as dist

_FIXED = {"VLLM_ENABLE_V1_MULTIPROCESSING": "0", "VLLM_NO_USAGE_STATS": "1"}
_DEFAULTS = {
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "VLLM_LOGGING_LEVEL": "ERROR",
    "TOKENIZERS_PARALLELISM": "false",
}


def prepare() -> None:
    """Set vLLM's environment. Call before the first import of vLLM; calling it again changes nothing."""
    os.environ.update(_FIXED)
    for name, value in _DEFAULTS.items():
        os.environ.setdefault(name, value)
    logging.getLogger("vllm").setLevel(os.environ["VLLM_LOGGING_LEVEL"])  # until vLLM sets its loggers up itself
    warnings.filterwarnings("ignore", category=FutureWarning, module=r"vllm\..*")


@contextlib.contextmanager
def launched(rank: int, run: str) -> Iterator[None]:
    """Around the construction of an engine of `external_launcher`, once torch.distributed is up.

    vLLM reads RANK and LOCAL_RANK from the environment; a plain process lacks them, and gets them only in here, because
    other code takes their presence for torchrun's.

    On a CPU, the ranks of a tensor-parallel engine share memory under a name that vLLM derives from how the process
    group was made. With this launcher that is the same name in every run, so two runs on a machine, or a run after one
    that was killed, fail with "create shm in SHMManager failed". In here the name is the run's own, and it is removed
    once all ranks have the memory, so that a killed run leaves nothing behind.

    Args:
        run: letters and digits, equal on every rank and unlike any other run's on this machine.
    """
    from vllm.v1.executor.uniproc_executor import ExecutorWithExternalLauncher as Launcher

    added = {"RANK": str(rank), "LOCAL_RANK": "0"}
    added = {name: value for name, value in added.items() if name not in os.environ}
    original = Launcher._distributed_args

    def named(self: Launcher) -> tuple[str, int, int]:
        method, own_rank, local_rank = original(self)
        return f"{method}:{run}", own_rank, local_rank

    os.environ.update(added)
    Launcher._distributed_args = named
    try:
        yield
    finally:
        Launcher._distributed_args = original
        for name in added:
            del os.environ[name]
    dist.barrier()
    for name in Path("/dev/shm").glob(f"{run}-*"):
        name.unlink(missing_ok=True)


@contextlib.contextmanager
def routes_on_every_rank() -> Iterator[None]:
    """Around the construction of a tensor-parallel engine of `external_launcher` that returns routed experts.

    vLLM keeps them on the first tensor-parallel rank, whose executor reports for all in a server. With this launcher
    every rank has a scheduler of its own, which stops at a step without them. All ranks capture the same ones (they
    take part in the collectives of that), so in here each is made to keep them.
    """
    from vllm.distributed.aux_output_connector import worker

    original = worker.get_tp_group
    worker.get_tp_group = lambda: SimpleNamespace(is_first_rank=True)
    try:
        yield
    finally:
        worker.get_tp_group = original


def uncompiled(kind: str) -> contextlib.AbstractContextManager[object]:
    """Around generation on a CPU: run vLLM's small `torch.compile`d helpers as they are written.

    Compiling the one that ranks log-probs takes 5 to 20 s in the first call and saves nothing measurable afterwards.
    """
    return torch.compiler.set_stance("force_eager") if kind == "cpu" else contextlib.nullcontext()
