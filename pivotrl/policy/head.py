"""The model as the trainer runs it: it ends in hidden states, of which only response tokens go through the head.

Legend: T = tokens of a micro-batch, P = those of them on this rank (T / TP with sequence parallelism, else all),
N = response tokens, U = tokens that predict one or more of them, H = hidden size,
V = vocabulary entries of this tensor-parallel rank.
"""

from typing import Any

from megatron.core.models.gpt import GPTModel
from megatron.core.tensor_parallel import (
    copy_to_tensor_model_parallel_region,
    gather_from_sequence_parallel_region,
)
from torch import Tensor

from pivotrl.objective.head import head_logprob
from pivotrl.policy.attention import TreeParams
from pivotrl.policy.repeat import repeat_rows


class PolicyModel(GPTModel):
    """A GPTModel that gives its last stage's hidden states [P, 1, H] where Megatron's gives logits.

    Its parameters, their names and its checkpoints are a GPTModel's: the output layer is there and holds the weight,
    but is not run.
    """

    vocabulary: int
    """Entries of the vocabulary without its padding; `model.build_model` says it."""

    def _preprocess(
        self, input_ids: Tensor, position_ids: Tensor, *args: Any, packed_seq_params: Any = None, **kwargs: Any
    ) -> tuple:
        """As Megatron's, with RoPE's table [T, 1, 1, D] by position for rows of trees. Runs on every pipeline stage."""
        outputs = super()._preprocess(input_ids, position_ids, *args, packed_seq_params=packed_seq_params, **kwargs)
        if not isinstance(packed_seq_params, TreeParams):
            return outputs
        assert self.config.moe_expert_capacity_factor is None, "a dropped prompt token would be missed by all responses"
        decoder_input, table, *others = outputs
        return decoder_input, table.index_select(0, position_ids[0]), *others

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
            index_N: rows of the micro-batch's T tokens. A prompt's last one is there once for each of its responses,
                whose first tokens it predicts; it is reduced over the tensor-parallel ranks once.
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
        row_U, place_N = index_N.unique(return_inverse=True)
        hidden_UH = copy_to_tensor_model_parallel_region(hidden_TH.index_select(0, row_U), group=tp_group)
        hidden_NH = repeat_rows(hidden_UH, place_N)
        main_grad = getattr(weight_VH, "main_grad", None)
        return head_logprob(hidden_NH, weight_VH, target_N, tp_group, temperature, self.vocabulary, main_grad)
