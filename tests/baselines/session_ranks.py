"""One rank of test_trainings.py: trainings one after another in one session.

Usage (under torchrun): session_ranks.py CONFIG '[{"kind": "sft", "overrides": [...], "weights": FILE}, ...]'

Each leaves the hash of its final weights in FILE.
"""

import hashlib
import json
import sys
from pathlib import Path

import torch

from pivotrl.baselines import end_to_end, sft
from pivotrl.config import load_config
from pivotrl.policy.memory import optimizer_tensors
from pivotrl.policy.step import Policy
from pivotrl.session import Session, open_session, reset

KINDS = {"sft": sft.train, "end_to_end": end_to_end.train}


def fingerprint(session: Session) -> str:
    """Of every weight's name and bits."""
    found = hashlib.sha256()
    for name, tensor in session.policy.export():
        found.update(name.encode() + tensor.contiguous().view(torch.uint8).numpy().tobytes())
    return found.hexdigest()


def tensors_of(policy: Policy) -> list[torch.Tensor]:
    """Weights, gradients and the optimizer's state."""
    weights = list(policy.model.parameters())
    gradients = [parameter.main_grad for parameter in weights]
    return [*weights, *gradients, *optimizer_tensors(policy.optimizer, weights)]


def main() -> None:
    session: Session | None = None
    for job in json.loads(sys.argv[2]):
        config = load_config(sys.argv[1], job["overrides"])
        if session is None:
            session = open_session(config)
        else:
            old = session.policy
            session = reset(session, config)
            left = [tensor.untyped_storage().nbytes() for tensor in tensors_of(old)]
            assert len(left) > 100 and not any(left), "the old policy's memory is given back"
        KINDS[job["kind"]](session)
        weights = fingerprint(session)
        if session.world.rank == 0:
            Path(job["weights"]).write_text(weights)


if __name__ == "__main__":
    main()
