"""States of the random number generators of one rank, as JSON: nothing in it has to be unpickled."""

import base64
import json
import random
from pathlib import Path
from typing import Any

import numpy
import torch
from torch import Tensor

from pivotrl.policy import device
from pivotrl.policy.checkpoint_checksums import DamagedCheckpoint


def file_of(rank: int) -> str:
    """Name of a rank's file in a checkpoint."""
    return f"random_{rank:05d}.json"


def capture() -> bytes:
    """The generators of Python, numpy, torch and Megatron as they are now on this rank."""
    from megatron.core.tensor_parallel.random import get_cuda_rng_tracker

    version, internal, gauss = random.getstate()
    kind, keys, position, has_gauss, cached = numpy.random.get_state()
    state: dict[str, Any] = {
        "python": [version, list(internal), gauss],
        "numpy": [kind, keys.tolist(), position, has_gauss, cached],
        "torch": _text(torch.get_rng_state()),
        "megatron": {name: _text(value) for name, value in get_cuda_rng_tracker().get_states().items()},
    }
    if device.current().kind == "cuda":
        state["cuda"] = _text(torch.cuda.get_rng_state())
    return json.dumps(state).encode()


def restore(path: Path) -> None:
    """Set the generators of this rank as a file has them.

    Raises:
        DamagedCheckpoint: the file is not what `capture` gives.
    """
    from megatron.core.tensor_parallel.random import get_cuda_rng_tracker

    try:
        state = json.loads(path.read_bytes())
        version, internal, gauss = state["python"]
        random.setstate((version, tuple(internal), gauss))
        kind, keys, position, has_gauss, cached = state["numpy"]
        numpy.random.set_state((kind, numpy.array(keys, numpy.uint32), position, has_gauss, cached))
        torch.set_rng_state(_tensor(state["torch"]))
        get_cuda_rng_tracker().set_states({name: _tensor(value) for name, value in state["megatron"].items()})
        if device.current().kind == "cuda" and "cuda" in state:
            torch.cuda.set_rng_state(_tensor(state["cuda"]))
    except (OSError, ValueError, KeyError, TypeError, RuntimeError) as error:
        raise DamagedCheckpoint(f"{path}: not the states of random number generators ({error!r:.200})") from None


def reseed(seed: int, step: int) -> None:
    """Start every generator of this rank anew, from another point than a run that starts at step 0."""
    from megatron.core.tensor_parallel import model_parallel_cuda_manual_seed

    mixed = (seed * 1_000_003 + step) % 2**31
    random.seed(mixed)
    numpy.random.seed(mixed)
    with device.scope():
        torch.manual_seed(mixed)
        model_parallel_cuda_manual_seed(mixed)


def _text(state: Tensor) -> str:
    return base64.b64encode(state.cpu().numpy().tobytes()).decode("ascii")


def _tensor(text: str) -> Tensor:
    return torch.frombuffer(bytearray(base64.b64decode(text)), dtype=torch.uint8)
