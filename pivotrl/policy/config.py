"""Configuration of the policy: which model, on which layout, updated how, saved when."""

from typing import Any, Literal

from pydantic import Field, field_validator, model_validator

from pivotrl.schema import Section

Recompute = Literal["none", "selective", "full"]


class ModelConfig(Section):
    path: str
    """Hugging Face folder of the policy: config.json, tokenizer, safetensors."""
    dtype: Literal["float32", "bfloat16"] = "bfloat16"
    """Type of the weights, in the trainer and in the engine. bfloat16 keeps fp32 main weights in the optimizer."""
    chat_template: str | None = None
    """Jinja file used instead of the tokenizer's own chat template."""
    recompute: Recompute = "none"
    """Activations that the backward pass recomputes instead of keeping. `selective`: MLPs and experts, but not
    attention. `full`: whole layers, for about a third more compute."""
    freeze_router: bool = False
    """Keep the MoE routers as they are (NVIDIA's recipes do)."""
    aux_loss: float = Field(0.0, ge=0)
    """Weight of the load-balancing loss of each MoE layer, see `policy/load_balance.py`; 0.001 is usual. A prompt that
    is trained once counts once in it."""

    @field_validator("recompute", mode="before")
    @classmethod
    def _is_named(cls, value: Any) -> Any:
        if isinstance(value, bool):
            raise ValueError(f"write {'full' if value else 'none'} for what was {str(value).lower()}, or selective")
        return value

    @model_validator(mode="after")
    def _balances_what_it_trains(self) -> "ModelConfig":
        if self.aux_loss and self.freeze_router:
            raise ValueError(
                f"aux_loss is {self.aux_loss:g} with freeze_router true: a frozen router cannot be balanced; "
                "set aux_loss 0, or freeze_router false"
            )
        return self


class ParallelConfig(Section):
    tensor: int = Field(1, ge=1)
    """Tensor-parallel size of attention and dense layers."""
    pipeline: int = Field(1, ge=1)
    """Pipeline stages."""
    expert: int = Field(1, ge=1)
    """Expert-parallel size: the experts of a layer are split over this many ranks."""
    expert_tensor: int = Field(1, ge=1)
    """Tensor-parallel size inside one expert."""
    virtual_pipeline: int = Field(1, ge=1)
    """Chunks of layers on each pipeline stage, which the interleaved schedule takes in turns; 1 is the plain one."""
    timeout_seconds: float = Field(1800.0, gt=0)
    """How long a rank waits for the others in one collective before it gives them up and the run ends. A dead rank is
    noticed at once; this is for one that is stuck. Longer than the slowest engine is behind the fastest one, and than
    rank 0 needs to read a checkpoint's checksums."""
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
    precision_aware: bool = False
    """Keep Adam's moments in bfloat16 (Transformer Engine's FusedAdam, so on GPUs only; needs `distributed`)."""
    offload: float = Field(0.0, ge=0, le=1)
    """Share of the optimizer's state that lives, and is updated, in the CPU's memory (bfloat16 models; needs
    `distributed`)."""

    @model_validator(mode="after")
    def _can_be_built(self) -> "OptimizerConfig":
        for key in ("precision_aware", "offload"):
            if getattr(self, key) and not self.distributed:
                raise ValueError(f"{key} is {getattr(self, key)} with distributed false, which it needs true")
        if self.precision_aware and self.offload:
            raise ValueError(
                f"precision_aware is true with offload {self.offload:g}: the CPU's Adam keeps float32 moments; use one"
            )
        return self


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
    packing: Literal["prompt_once", "plain"] = "prompt_once"
    """`prompt_once`: the samples of one prompt share one copy of it in a micro-batch. `plain`: every sample brings its
    own. The gradient is the same."""
    router_replay: Literal["none", "trainer", "engine"] = "none"
    """Which experts a token goes to in the updates of a batch. `none`: the router chooses anew. `trainer`: those of the
    pass for the old log-probs, so it does something where `updates_per_batch` is above 1. `engine`: those that the
    engine sent it to when it sampled, in that pass as well (GPUs only). The router keeps its gradient."""
    dynamic_sampling: int = Field(0, ge=0)
    """Further batches of pivots that a step may draw until `pivots_per_step` groups carry a signal (rewards that
    differ); 0 trains on the first batch as it is. Only groups with a signal are then trained on, others where the draws
    ran out: the loss is a mean over other groups than without it. `draws` and `unused_share` say what it cost."""
    offload: bool = False
    """Move gradients and the optimizer's state out of the way while the engine is awake."""


class CheckpointConfig(Section):
    every: int = Field(10, ge=0)
    """Steps between checkpoints; 0 saves only after the last step."""
    keep: int = Field(2, ge=1)
    """Newest checkpoints that are kept."""
    keep_best: int = Field(0, ge=0)
    """Checkpoints that are kept besides, those with the best mean training reward since the one before."""
    background: bool = False
    """Write in the background, while the next steps run. The weights are copied to memory first."""
    fallback: bool = False
    """Where the newest checkpoint is damaged, take the one before it instead of stopping."""
    resume: bool = True
    """Continue from the newest checkpoint of the run folder where there is one."""
