"""One router's part of router replay, in the place where Megatron's router asks for its top-k.

Legend: P = tokens that this rank routes of a micro-batch, K = experts of a token.
"""

import contextlib
from collections.abc import Callable, Iterator, Sequence

import torch
from megatron.core.transformer.moe.router import TopKRouter
from megatron.core.transformer.moe.router_replay import RouterReplay, RouterReplayAction
from torch import Tensor


class LayerReplay(RouterReplay):
    """Takes the place of Megatron's RouterReplay in one router, for passes of several micro-batches.

    Megatron's holds one target at a time, a list of them for recomputation that the caller has to keep in step, and a
    target for every token. This one has a target for every micro-batch of the pass and none for tokens of negative
    ones. It is not told which micro-batch it is asked for, but counts: on every pipeline schedule a layer takes the
    micro-batches in order, in the forward passes as in the backward passes, and what is asked for inside a backward
    pass is a recomputation.
    """

    def __init__(self, dtype: torch.dtype):
        """Args: dtype: of recorded routes."""
        super().__init__()
        # Megatron's list is of all the models of a process, and keeps them alive.
        RouterReplay.global_router_replay_instances.remove(self)
        self.dtype = dtype
        self.recorded: list[Tensor] = []
        """[P, K] on the host for each micro-batch that was recorded."""
        self._targets: Sequence[Tensor] = ()
        self._calls = {"forward": 0, "backward": 0}

    @contextlib.contextmanager
    def over(self, num_batches: int, targets: Sequence[Tensor] | None) -> Iterator[None]:
        """For one pass over `num_batches` micro-batches: replay these targets (integers [P, K]), or record if None."""
        replays = targets is not None
        self._targets = targets if replays else ()
        self._calls = {"forward": 0, "backward": 0}
        if not replays:
            self.recorded = []
        self.set_router_replay_action(RouterReplayAction.REPLAY_FORWARD if replays else RouterReplayAction.RECORD)
        try:
            yield
        finally:
            self.clear_router_replay_action()
            self._targets = ()
        assert self._calls["forward"] == num_batches, (self._calls, num_batches)
        assert self._calls["backward"] in (0, num_batches), (self._calls, num_batches)

    def get_replay_topk(
        self,
        scores: Tensor,
        topk: int,
        num_groups: int | None = None,
        group_topk: int | None = None,
        default_compute_topk: Callable[..., tuple[Tensor, Tensor]] | None = None,
    ) -> tuple[Tensor, Tensor]:
        """Scores [P, K] and indices of the experts for each of `scores`' [P, experts] rows, as Megatron's."""
        chosen, indices = default_compute_topk(scores, topk, num_groups, group_topk)
        if self.router_replay_action is None:
            return chosen, indices
        # An autograd task runs: Megatron's checkpoint is recomputing (torch's own asks this to know the same).
        phase = "backward" if torch._C._current_graph_task_id() != -1 else "forward"
        call = self._calls[phase]
        self._calls[phase] += 1
        if self.router_replay_action is RouterReplayAction.RECORD:
            if phase == "forward":
                self.recorded.append(indices.to("cpu", self.dtype))
            return chosen, indices
        target = self._targets[call].to(scores.device, torch.int64)
        assert target.shape == indices.shape, "a target of another micro-batch"
        indices = torch.where(target >= 0, target, indices)
        return scores.gather(1, indices), indices


def install(model: torch.nn.Module, dtype: torch.dtype) -> dict[int, LayerReplay]:
    """Put a LayerReplay into every router of the model; they come back by their layer's index, from 0."""
    layers = {}
    for module in model.modules():
        if isinstance(module, TopKRouter):
            assert not module.config.moe_router_fusion, "the fused router does not ask for its top-k"
            module.router_replay = layers[module.layer_number - 1] = LayerReplay(dtype)
    return layers
