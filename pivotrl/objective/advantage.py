"""Rewards of a group of samples -> advantages.

Legend: N samples of the global batch, G samples of one group, O = G - 1 others.
"""

from collections.abc import Hashable, Sequence

import torch
from torch import Tensor

from pivotrl.objective.config import Advantage


def group_advantages(
    rewards_N: Tensor, group_ids_N: Tensor | Sequence[Hashable], mode: Advantage, epsilon: float
) -> Tensor:
    """Compare each sample's reward with those of its own group.

    - `grpo` (DeepSeekMath's GRPO, PivotRL): A = (r - mean) / (std + epsilon), std over the group's population.
    - `leave_one_out` (NeMo-RL): A = (r - b) / (s + epsilon), b and s the mean and the Bessel-corrected std of the
      *other* samples of the group; where those do not differ, A = r - b.
    - `mean_only` (Dr. GRPO): A = r - mean.

    Groups may have any size and order. A group of one, and a group whose rewards are all equal, get exactly zero:
    the rounding in a mean of 0.1s never becomes a signal.

    Args:
        rewards_N: floating point. The arithmetic is float64 whatever its dtype.
        group_ids_N: an integer tensor or hashables. The samples of one draw of a pivot share an id; a pivot drawn
            twice, and two pivots with equal prompts, are two groups and need two ids.
        mode: one of the three above.
        epsilon: > 0, in units of reward.

    Returns:
        Advantages [N], of the dtype and device of `rewards_N`.

    Raises:
        ValueError: ids and rewards differ in number, or a reward is not finite.
    """
    ids = group_ids_N.tolist() if isinstance(group_ids_N, Tensor) else group_ids_N
    if rewards_N.ndim != 1 or len(ids) != len(rewards_N):
        raise ValueError(f"rewards must be [N] with N group ids, got {list(rewards_N.shape)} and {len(ids)} ids")
    if not rewards_N.isfinite().all():
        index = int((~rewards_N.isfinite()).nonzero()[0])
        raise ValueError(f"rewards must be finite: sample {index} (group {ids[index]!r}) has {rewards_N[index].item()}")

    members: dict[Hashable, list[int]] = {}
    for index, group_id in enumerate(ids):
        members.setdefault(group_id, []).append(index)
    advantages_N = torch.zeros_like(rewards_N)
    for indices in members.values():
        rewards_G = rewards_N[indices].double()
        if (rewards_G != rewards_G[0]).any():
            advantages_N[indices] = _unequal_group(rewards_G, mode, epsilon).to(rewards_N.dtype)
    return advantages_N


def _unequal_group(rewards_G: Tensor, mode: Advantage, epsilon: float) -> Tensor:
    if mode == "leave_one_out":
        return _leave_one_out(rewards_G, epsilon)
    centred_G = rewards_G - rewards_G.mean()
    return centred_G if mode == "mean_only" else centred_G / (rewards_G.std(correction=0) + epsilon)


def _leave_one_out(rewards_G: Tensor, epsilon: float) -> Tensor:
    size = len(rewards_G)
    is_other_GG = ~torch.eye(size, dtype=torch.bool, device=rewards_G.device)
    others_GO = rewards_G.expand(size, size)[is_other_GG].view(size, size - 1)
    centred_G = rewards_G - others_GO.mean(dim=1)
    if size == 2:
        return centred_G
    # Equality, not std == 0: that would hang on how std rounds for fifteen 0.1s.
    others_equal_G = (others_GO == others_GO[:, :1]).all(dim=1)
    return torch.where(others_equal_G, centred_G, centred_G / (others_GO.std(dim=1, correction=1) + epsilon))
