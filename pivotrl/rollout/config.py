"""Configuration of the co-located engines: their layout, what they may hold, and how they sample."""

from pydantic import Field

from pivotrl.schema import Section


class EarlyStopConfig(Section):
    """Groups whose first rewards are all equal are not finished; see `pivotrl/early_stop.py`."""

    after: int | None = Field(None, ge=2)
    """Samples of a group that are sampled and judged first; the rest follows where their rewards differ. null: all are
    sampled at once. Half of `training.group_size` or more: the fewer, the more groups that would carry a signal look
    settled. It takes two waves of sampling, so a step waits for its longest sample twice."""
    keep: float = Field(0.25, ge=0, lt=1)
    """Chance that a group of equal rewards goes on all the same; its loss then weighs 1 / keep, which leaves the
    gradient's mean as it is without early stopping. 0 drops every such group: fewer tokens, and a gradient that lacks
    the hardest and the easiest pivots."""


class RolloutConfig(Section):
    tensor: int = Field(1, ge=1)
    """Tensor-parallel size of one engine. Ranks k * tensor to (k + 1) * tensor - 1 hold engine k."""
    expert_parallel: bool = False
    """The ranks of an engine hold whole experts, 1 / tensor of them each, instead of 1 / tensor of every expert's
    columns. Where `parallel.expert` is the same number, a refit then copies experts within each rank. GPUs only."""
    max_model_len: int | None = Field(None, ge=2)
    """Longest prompt and completion together, in tokens. Longer turns are left out of selection, and counted. Unset:
    `training.micro_batch_tokens`, up to which a longer context costs the trainer no memory, or the model's positions
    where they are fewer."""
    max_new_tokens: int = Field(1024, ge=1)
    """Tokens sampled for one action, at most."""
    temperature: float = Field(1.0, gt=0)
    """Sampling temperature in training. At 1 the log-probs kept are those that the tokens were drawn from."""
    top_p: float = Field(1.0, gt=0, le=1)
    """Share of the probability mass that sampling keeps in training."""
    kv_cache_gib: float | None = Field(None, gt=0)
    """Key-value cache of each rank, in GiB. Unset: on a GPU, what the plan says is left beside the policy; on a CPU, 1,
    or what all sequences can fill where that is less (`planning/sizes.py`)."""
    sleep: bool | None = None
    """The engine gives its weights and its cache up while the policy trains, and takes the memory back for the refit.
    Unset: on GPUs. A CPU engine cannot."""
    max_num_seqs: int = Field(256, ge=1)
    """Sequences that one engine decodes at the same time."""
    early_stop: EarlyStopConfig = EarlyStopConfig()
    """Groups that look settled stop early; off."""
    bank: bool = True
    """Keep each finished group of a step in `bank/` in the run folder until a checkpoint holds the step's update: a run
    that is killed in the middle of a long rollout then samples only what was not done. The folder must be one that all
    ranks share, or rank 0 finds its own groups only."""
    tool_parser: str = "hermes"
    """vLLM's tool parser for the model's tool-call markup: hermes for Qwen, or any name that vLLM registers."""
    reasoning_parser: str | None = None
    """vLLM's reasoning parser (deepseek_r1, qwen3, ...) for models that think first; unset for those that do not."""
    refit_buffer_mib: int = Field(128, ge=1)
    """Size of one of a refit's two buffers, in MiB; what a CPU engine's packing of a layer takes comes out of them."""
    canary_tokens: int = Field(48, ge=8)
    """Length of the fixed token sequence that both sides score after every refit."""
    canary_tolerance: float | None = Field(None, gt=0)
    """Largest gap between a canary log-prob of the engine and the trainer's. Unset: 1e-3 in float32; in bfloat16 0.3,
    which a quarter of the positions may exceed (routers' near-ties). In float32 a second canary decides there."""
