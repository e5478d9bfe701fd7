"""Configuration of the policy: which model, on which layout, updated how, saved when."""

from typing import Literal

from pydantic import Field

from pivotrl.schema import Section


class ModelConfig(Section):
    path: str
    """Hugging Face folder of the policy: config.json, tokenizer, safetensors."""
    dtype: Literal["float32", "bfloat16"] = "bfloat16"
    """Type of the weights, in the trainer and in the engine. bfloat16 keeps fp32 main weights in the optimizer."""
    chat_template: str | None = None
    """Jinja file used instead of the tokenizer's own chat template."""
    recompute: bool = False
    """Recompute every layer's activations in the backward pass: less memory, about a third more compute."""
    freeze_router: bool = False
    """Keep the MoE routers as they are (NVIDIA's recipes do)."""


class ParallelConfig(Section):
    tensor: int = Field(1, ge=1)
    """Tensor-parallel size of attention and dense layers."""
    pipeline: int = Field(1, ge=1)
    """Pipeline stages."""
    expert: int = Field(1, ge=1)
    """Expert-parallel size: the experts of a layer are split over this many ranks."""
    expert_tensor: int = Field(1, ge=1)
    """Tensor-parallel size inside one expert."""
    sequence: bool | None = None
    """Sequence parallelism. Unset: on where `tensor` > 1, which MoE models need."""

    @property
    def sequence_parallel(self) -> bool:
        return self.tensor > 1 if self.sequence is None else self.sequence


class OptimizerConfig(Section):
    """Adam on fp32 main weights, by Megatron-Core."""

    lr: float = Field(1e-6, gt=0)
    """Learning rate after the warm-up; constant from there."""
    warmup_steps: int = Field(0, ge=0)
    """Steps over which the learning rate rises linearly from lr / (warmup_steps + 1)."""
    weight_decay: float = Field(0.01, ge=0)
    """Decoupled weight decay of matrices; norms and biases get none."""
    beta1: float = Field(0.9, ge=0, lt=1)
    """Decay of Adam's first moment."""
    beta2: float = Field(0.999, ge=0, lt=1)
    """Decay of Adam's second moment."""
    eps: float = Field(1e-8, gt=0)
    """Added to Adam's denominator."""
    clip_grad: float = Field(1.0, ge=0)
    """Largest global gradient norm; 0 does not clip."""
    distributed: bool = True
    """Shard the optimizer's state over data-parallel ranks (Megatron's distributed optimizer)."""


class TrainingConfig(Section):
    steps: int = Field(100, ge=0)
    """Optimizer steps in all."""
    pivots_per_step: int = Field(64, ge=1)
    """Pivots drawn for each step (the paper's B)."""
    group_size: int = Field(16, ge=2)
    """Samples for each pivot (the paper's G)."""
    updates_per_batch: int = Field(1, ge=1)
    """Optimizer updates on each batch of samples. Above 1, a pass for the old log-probs is run before the first."""
    micro_batch_tokens: int = Field(16384, ge=1)
    """Tokens in one packed micro-batch, at most; one longer sequence gets a micro-batch of its own."""


class CheckpointConfig(Section):
    every: int = Field(10, ge=0)
    """Steps between checkpoints; 0 saves only after the last step."""
    keep: int = Field(2, ge=1)
    """Newest checkpoints that are kept."""
    resume: bool = True
    """Continue from the newest checkpoint of the run folder where there is one."""
