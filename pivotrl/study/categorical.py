"""One state with A actions: a softmax policy, exact in closed form. What `docs/theory.md` derives.

Legend: A actions. Probabilities are strictly positive; everything is float64.
"""

import torch
from torch import Tensor


def fisher(policy_A: Tensor) -> Tensor:
    """Fisher information of a softmax policy in its logits, diag(p) - p p^T [A, A]. Its null space is the constants."""
    return torch.diag(policy_A) - torch.outer(policy_A, policy_A)


def natural_gradient(policy_A: Tensor, rewards_A: Tensor) -> Tensor:
    """Natural gradient of J = E[r] in the logits [A]: the advantages r - E[r]. It solves F v = grad J; a constant may
    be added, which moves no probability."""
    return rewards_A - policy_A @ rewards_A


def fisher_norm(policy_A: Tensor, vector_A: Tensor) -> Tensor:
    """sqrt(v^T F v): the length of a step v of the logits, as the policy feels it."""
    return (vector_A @ fisher(policy_A) @ vector_A).clamp_min(0).sqrt()


def tilted(reference_A: Tensor, rewards_A: Tensor, beta: float) -> Tensor:
    """The policy that maximises E[r] - beta KL(policy || reference): reference x exp(r / beta), normalised [A]."""
    return (reference_A.log() + rewards_A / beta).softmax(-1)


def path_speed(reference_A: Tensor, rewards_A: Tensor, beta: float) -> Tensor:
    """How fast `tilted` moves with beta, in the Fisher-Rao metric: std(r) / beta^2, r drawn from the tilted policy."""
    policy_A = tilted(reference_A, rewards_A, beta)
    return fisher_norm(policy_A, natural_gradient(policy_A, rewards_A)) / beta**2


def accepted_mass(reference_A: Tensor, accepted_A: Tensor, beta: float) -> Tensor:
    """Mass that `tilted` puts on the accepted actions for the reward 1[accepted]: a logistic shift by 1 / beta."""
    return torch.sigmoid(torch.logit(reference_A[accepted_A].sum()) + 1 / beta)


def projection(reference_A: Tensor, accepted_A: Tensor, mass: Tensor | float) -> Tensor:
    """The policy nearest to the reference, by KL(policy || reference), of those that put `mass` on the accepted actions
    [A]: the reference, rescaled inside the set and outside."""
    inside = reference_A[accepted_A].sum()
    return torch.where(accepted_A, reference_A * (mass / inside), reference_A * ((1 - mass) / (1 - inside)))


def kl(policy_A: Tensor, reference_A: Tensor) -> Tensor:
    """KL(policy || reference) in nats."""
    return (policy_A * (policy_A.log() - reference_A.log())).sum()
