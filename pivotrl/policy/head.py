"""The model as the trainer runs it: it ends in hidden states, of which only response tokens go through the head.

Legend: T = tokens of a micro-batch, P = those of them on this rank (T / TP with sequence parallelism, else all),
N = response tokens, H = hidden size, V = vocabulary entries of this tensor-parallel rank.
"""

from typing import Any

from megatron.core.models.gpt import GPTModel
from megatron.core.tensor_parallel import (
    copy_to_tensor_model_parallel_region,
    gather_from_sequence_parallel_region,
)
from torch import Tensor

from pivotrl.objective.head import head_logprob


class PolicyModel(GPTModel):
    """A GPTModel that gives its last stage's hidden states [P, 1, H] where Megatron's gives logits.

    Its parameters, their names and its checkpoints are a GPTModel's: the output layer is there and holds the weight,
    but is not run.
    """

    def _postprocess(self, hidden_states: Tensor, *_: Any, **__: Any) -> Tensor:
        return hidden_states

    def head_weight(self) -> Tensor:
        """[V, H], on the last stage: the output layer's, or the embedding's where both are one parameter."""
        weight = self.output_layer.weight
        return self.shared_embedding_or_output_weight() if weight is None else weight

    def token_log_probs(
        self, hidden_P1H: Tensor, index_N: Tensor, target_N: Tensor, temperature: float
    ) -> tuple[Tensor, Tensor]:
        """Log-probs (nats, float32) of target_N behind the tokens at index_N, and entropies there: both [N].

        Only the chosen rows' gradient is summed over the tensor-parallel ranks: behind a long prompt that moves less
        than the reduce-scatter of all T rows, which is how Megatron's output layer does it with sequence parallelism.
        The weight's gradient goes into Megatron's float32 `main_grad` at once, where there is one, and autograd gets
        none. What it gets besides, a tied embedding's gradient, Megatron's DDP adds as for any parameter. (Its
        `overlap_grad_reduce`, which is off, would stop at a parameter without a gradient of autograd's.)

        Args:
            hidden_P1H: what the model gave, on its last stage; may have been cast to float32 on the way.
            index_N: rows of the micro-batch's T tokens, each at most once.
        """
        weight_VH = self.head_weight()
        tp_group = self.pg_collection.tp
        # Megatron's Float16Module makes the last stage's output float32, which nothing here needs.
        hidden_PH = hidden_P1H[:, 0].to(weight_VH.dtype)
        if self.config.sequence_parallel:
            hidden_TH = gather_from_sequence_parallel_region(
                hidden_PH, tensor_parallel_output_grad=False, group=tp_group
            )
        else:
            hidden_TH = hidden_PH
        hidden_NH = copy_to_tensor_model_parallel_region(hidden_TH.index_select(0, index_N), group=tp_group)
        main_grad = getattr(weight_VH, "main_grad", None)
        return head_logprob(hidden_NH, weight_VH, target_N, tp_group, temperature, weight_grad_VH=main_grad)
