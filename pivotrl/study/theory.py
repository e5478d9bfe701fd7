"""Draws what docs/theory.md derives, each curve beside a brute-force value.

python -m pivotrl.study.theory --out docs/theory.svg
"""

import argparse
from pathlib import Path

import torch
from torch import Tensor

from pivotrl.study.categorical import fisher, path_speed, projection, tilted
from pivotrl.study.figure import Panel, figure

REFERENCE = torch.tensor([0.40, 0.20, 0.04, 0.20, 0.12, 0.04], dtype=torch.float64)
ACCEPTED = torch.tensor([False, False, False, True, True, True])
"""An example: six actions, the last three accepted. The expert wrote the last one, which the reference hardly does."""


def brute_force_norm(policy_A: Tensor, rewards_A: Tensor) -> float:
    """Norm of the natural gradient of E[r] with nothing simplified: autograd's gradient g, the Fisher matrix as the
    mean outer product of score vectors, sqrt(g^T F^+ g)."""
    logits_A = policy_A.log().requires_grad_()
    (gradient_A,) = torch.autograd.grad(logits_A.softmax(-1) @ rewards_A, logits_A)
    scores_AA = torch.eye(len(policy_A), dtype=policy_A.dtype) - policy_A
    fisher_AA = torch.einsum("a,ai,aj->ij", policy_A, scores_AA, scores_AA)
    return (gradient_A @ torch.linalg.pinv(fisher_AA, hermitian=True) @ gradient_A).clamp_min(0).sqrt().item()


def measured_speed(reference_A: Tensor, rewards_A: Tensor, beta: float, width: float = 1e-4) -> float:
    """Fisher-Rao length between the optima at beta (1 - width / 2) and beta (1 + width / 2), over the difference of
    the betas. For near policies that length is sqrt(d^T F d), d the difference of log-probs."""
    low, high = (tilted(reference_A, rewards_A, beta * (1 + sign * width / 2)) for sign in (-1, 1))
    step_A = high.log() - low.log()
    return (step_A @ fisher(tilted(reference_A, rewards_A, beta)) @ step_A).sqrt().item() / (beta * width)


def panels() -> list[Panel]:
    """The four charts."""
    shares = [n / 24 for n in range(25)]
    rewards_2 = torch.tensor([1.0, 0.0], dtype=torch.float64)

    def norm(share: float) -> float:
        return (
            brute_force_norm(torch.tensor([share, 1 - share], dtype=torch.float64), rewards_2) if 0 < share < 1 else 0
        )

    betas = [0.1 * 1.12**n for n in range(22)]
    right = ACCEPTED.double()
    strict = torch.zeros(6, dtype=torch.float64)
    strict[-1] = 1.0
    masses = [0.36 + 0.63 * n / 20 for n in range(21)]

    def within(policy_A: Tensor, index: int) -> float:
        return (policy_A[index] / policy_A[ACCEPTED].sum()).item()

    def strict_at(mass: float) -> Tensor:
        """The strict reward's optimum at the beta that gives the same mass on the accepted actions."""
        low, high = 1e-3, 1e6
        for _ in range(100):
            middle = (low * high) ** 0.5
            heavier = tilted(REFERENCE, strict, middle)[ACCEPTED].sum() > mass
            low, high = (middle, high) if heavier else (low, middle)
        return tilted(REFERENCE, strict, low)

    return [
        Panel(
            "Norm of the natural gradient at a turn",
            "chance of a right action, percent",
            {
                "sqrt(p (1 - p))": [(100 * p, (p * (1 - p)) ** 0.5) for p in shares],
                "autograd": [(100 * p, norm(p)) for p in shares[::3]],
            },
            low=0.0,
            marks=True,
        ),
        Panel(
            "Groups of G samples that carry a signal, share",
            "chance of a right action, percent",
            {f"G = {g}": [(100 * p, 1 - p**g - (1 - p) ** g) for p in shares] for g in (4, 8, 16)},
            low=0.0,
        ),
        Panel(
            "log10 of the optimum's speed in beta",
            "1 / beta",
            {
                "std(r) / beta^2": [(1 / b, path_speed(REFERENCE, right, b).log10().item()) for b in betas],
                "measured": [
                    (1 / b, torch.tensor(measured_speed(REFERENCE, right, b)).log10().item()) for b in betas[::3]
                ],
            },
            marks=True,
        ),
        Panel(
            "Share of an accepted action within the accepted",
            "mass on the accepted actions, percent",
            {
                "functional: first": [(100 * m, within(projection(REFERENCE, ACCEPTED, m), 3)) for m in masses],
                "functional: expert's": [(100 * m, within(projection(REFERENCE, ACCEPTED, m), 5)) for m in masses],
                "strict: expert's": [(100 * m, within(strict_at(m), 5)) for m in masses[1:]],
                "strict: first": [(100 * m, within(strict_at(m), 3)) for m in masses[1:]],
            },
            low=0.0,
        ),
    ]


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description="Draw the theory's curves beside brute-force values.")
    parser.add_argument("--out", type=Path, required=True, help="SVG file to write")
    out = parser.parse_args().out
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(figure(panels()), encoding="utf-8")
    print(f"wrote {out}")


if __name__ == "__main__":
    main()
