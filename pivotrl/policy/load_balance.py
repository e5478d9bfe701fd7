"""The load-balancing loss of MoE layers, under one denominator for the whole global batch.

For a layer and a micro-batch (Fedus et al. 2021, Switch Transformer, eq. 4, for top-k as Megatron-Core has it):

    L = E sum_e f_e P_e,   f_e = (choices of expert e) / (k T),   P_e = (sum of its probabilities) / T

over the micro-batch's T tokens, which is 1 where every expert gets the same. What is added to the objective is

    model.aux_loss * sum over layers of the mean of L over micro-batches, each weighted by its tokens

so neither the number of micro-batches nor the layout scales it; only f is a micro-batch's own, as everywhere. T counts
every token that goes through the trunk, prompts included (a shared one once), and no padding. Megatron weighs by tokens
too, but of one tensor-parallel rank, and leaves the division to a sum of tokens that this project does not use.

Legend: T = tokens of a micro-batch, P = those of them on this rank, E = experts.
"""

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

import torch
import torch.distributed as dist
from megatron.core.transformer.moe.moe_utils import (
    MoEAuxLossAutoScaler,
    get_tokens_per_expert_and_token_count,
    switch_load_balancing_loss_func,
)
from megatron.core.transformer.moe.router import TopKRouter
from megatron.core.utils import get_attr_wrapped_model
from torch import Tensor

from pivotrl.policy.packing import MicroBatch
from pivotrl.policy.parallel import World


class LoadBalance:
    """What the routers of this rank share during a pass: the batch's tokens, and the loss so far."""

    def __init__(self, model: Any, coefficient: float, world: World, sequence_parallel: bool) -> None:
        """Join every router of the model. With coefficient 0 nothing is done in any pass."""
        self.coefficient, self._world, self._sequence_parallel = coefficient, world, sequence_parallel
        self._batch_tokens = 1
        self._sum = torch.zeros(())
        for module in model.modules():
            if isinstance(module, BalancedRouter):
                module.balance = self

    @contextlib.contextmanager
    def over(self, batches: Sequence[MicroBatch]) -> Iterator[None]:
        """Around the pass over this rank's micro-batches (collective over data-parallel ranks)."""
        if self.coefficient and torch.is_grad_enabled():
            tokens = sum(segment.length for batch in batches for segment in batch.segments)
            total = torch.tensor(tokens, dtype=torch.int64, device=batches[0].input_ids.device)
            dist.all_reduce(total, group=self._world.dp_group)
            self._batch_tokens = max(int(total), 1)
            self._sum = torch.zeros((), dtype=torch.float64, device=total.device)
        yield

    def mask(self, batch: MicroBatch, model: Any) -> dict[str, Tensor]:
        """The argument of a chunk's forward that tells its routers the padding: bool [1, T], or [1, P] where the chunk
        does not cut it itself."""
        if not self.coefficient:
            return {}
        padding_1T = torch.ones_like(batch.input_ids, dtype=torch.bool)
        for segment in batch.segments:
            padding_1T[:, segment.start : segment.start + segment.length] = False
        if self._sequence_parallel and not get_attr_wrapped_model(model, "pre_process"):
            return {"padding_mask": padding_1T.chunk(self._world.tp_size, dim=1)[self._world.tp_rank].contiguous()}
        return {"padding_mask": padding_1T}

    def add(self, probs: Tensor, loss: Tensor, tokens: Tensor) -> Tensor:
        """Tie to `probs` this rank's part of a layer's L for a micro-batch of that many tokens: its gradient goes with
        theirs."""
        weighted = loss * (tokens / self._batch_tokens)
        self._sum += weighted.detach()
        return MoEAuxLossAutoScaler.apply(probs, self.coefficient * weighted)

    def metrics(self, layers: int) -> dict[str, float]:
        """`aux_loss`: the mean of L over layers and tokens in the last pass, without its coefficient (collective)."""
        if not self.coefficient:
            return {}
        dist.all_reduce(self._sum)  # every rank has its own tokens and layers
        return {"aux_loss": self._sum.item() / layers}


class BalancedRouter(TopKRouter):
    """Megatron's router, with this file's load-balancing loss where it would add its own."""

    balance: LoadBalance | None = None

    def _apply_aux_loss(
        self, probs: Tensor, scores_for_aux_loss: Tensor, routing_map: Tensor, with_padding_mask: bool = False
    ) -> Tensor:
        assert self.balance is not None, "a model with an auxiliary loss is trained through its policy"
        assert with_padding_mask, "the pass must say what is padding"
        chosen_E, _, tokens = get_tokens_per_expert_and_token_count(
            routing_map=routing_map, reduce_group=self.tp_cp_group, topk=self.topk, with_padding_mask=True
        )
        loss = switch_load_balancing_loss_func(
            probs=scores_for_aux_loss,
            tokens_per_expert=chosen_E,
            total_num_tokens=tokens.clamp(min=1),  # a dummy has none
            topk=self.topk,
            num_experts=self.config.num_moe_experts,
            moe_aux_loss_coeff=1.0,
        )
        return self.balance.add(probs, loss, tokens)
