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

import torch

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
def ranks_in_environment(rank: int, local_rank: int) -> Iterator[None]:
    """RANK and LOCAL_RANK for the construction of an engine, which reads them there; torchrun sets them, a plain
    process does not, and other code takes their presence for torchrun's."""
    added = {"RANK": str(rank), "LOCAL_RANK": str(local_rank)}
    added = {name: value for name, value in added.items() if name not in os.environ}
    os.environ.update(added)
    try:
        yield
    finally:
        for name in added:
            del os.environ[name]


def uncompiled(kind: str) -> contextlib.AbstractContextManager[object]:
    """Around generation on a CPU: run vLLM's small `torch.compile`d helpers as they are written.

    Compiling the one that ranks log-probs takes 5 to 20 s in the first call and saves nothing measurable afterwards.
    """
    return torch.compiler.set_stance("force_eager") if kind == "cpu" else contextlib.nullcontext()
