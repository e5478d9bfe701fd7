"""How far a training run is from the reference of parity_reference.py."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor


def errors(found: Mapping[str, Any], exact: Mapping[str, Any], start: Mapping[str, Tensor]) -> dict[str, float]:
    """Compare what a run found with what is exact; `start` holds the weights before the first step.

    Returns:
        Of the first step the largest absolute errors of `logits` and `log_probs` (nats), the relative errors of `loss`
        and `grad_norm` (before clipping), and |g - exact| / |exact| of the gradient: of all parameters together
        (`grads`) and of the worst tensor (`worst`). Behind the last step the largest absolute error of `weights`, and
        |w - exact| / |exact - start| of all of them (`way`).
    """
    total, worst = relative(found["grads"], exact["grads"])

    def moved(weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
        return {name: tensor.double() - start[name] for name, tensor in weights.items()}

    names = list(exact["weights"])
    return {
        "logits": _largest(found["logits"], exact["logits"]),
        "log_probs": _largest(found["log_probs"], exact["log_probs"]),
        "loss": abs(found["loss"] / exact["loss"] - 1),
        "grad_norm": abs(found["grad_norm"] / exact["grad_norm"] - 1),
        "grads": total,
        "worst": worst,
        "weights": _largest([found["weights"][name] for name in names], [exact["weights"][name] for name in names]),
        "way": relative(moved(found["weights"]), moved(exact["weights"]))[0],
    }


def relative(ours: Mapping[str, Tensor], theirs: Mapping[str, Tensor]) -> tuple[float, float]:
    """|a - b| / |b| of all tensors together, and the largest of a single one; 0 / 0 counts as 0."""
    assert ours.keys() == theirs.keys(), ours.keys() ^ theirs.keys()
    off = torch.tensor([(ours[name].double() - tensor.double()).norm() for name, tensor in theirs.items()])
    size = torch.tensor([tensor.double().norm() for tensor in theirs.values()])
    single = torch.where(off == 0, 0.0, off / size)
    return (off.norm() / size.norm()).item(), single.max().item()


def _largest(ours: Sequence[Tensor], theirs: Sequence[Tensor]) -> float:
    return max((a.double() - b.double()).abs().max().item() for a, b in zip(ours, theirs, strict=True))
