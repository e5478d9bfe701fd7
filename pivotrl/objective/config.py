"""What the policy is trained to maximise: one section of a run's configuration. Imports no torch."""

from typing import Literal

from pydantic import Field, model_validator

from pivotrl.schema import Section

Advantage = Literal["grpo", "leave_one_out", "mean_only"]
KlEstimator = Literal["k1", "k2", "k3"]
Surrogate = Literal["clip", "cispo"]
Importance = Literal["none", "truncate", "mask"]


class ObjectiveConfig(Section):
    """The clipped, group-normalised objective. The defaults are PivotRL's paper.

    Raises:
        ValueError: (pydantic's ValidationError) naming the key, the value found and its bound.
    """

    advantage: Advantage = "grpo"
    """How rewards become advantages within a group. `grpo`: (r - mean) / (population std + epsilon). `leave_one_out`:
    mean and Bessel std over the other samples of the group (NVIDIA's recipes). `mean_only`: r - mean (Dr. GRPO)."""

    advantage_epsilon: float = Field(1e-6, gt=0, allow_inf_nan=False)
    """Added to the standard deviation of a group before dividing, in units of reward. Unused by `mean_only`."""

    ratio: Literal["token", "sequence"] = "token"
    """`token`: each token's policy / old policy probability, clipped by itself (PPO, GRPO). `sequence`: the geometric
    mean of a sample's token ratios, one clip for the whole sample (GSPO)."""

    surrogate: Surrogate = "clip"
    """`clip`: PPO's pessimistic clipped ratio. `cispo`: the clipped ratio, held constant, weighs A log p, so that every
    token keeps a gradient (MiniMax-M1); token ratios only."""

    clip_low: float = Field(0.2, ge=0, le=1)
    """Ratios below 1 - clip_low give no gradient where the advantage is negative. GSPO uses 3e-4, sequence ratios."""

    clip_high: float = Field(0.2, ge=0, allow_inf_nan=False)
    """Ratios above 1 + clip_high give no gradient where the advantage is positive. DAPO uses 0.28, GSPO 4e-4."""

    dual_clip: float | None = Field(None, gt=1, allow_inf_nan=False)
    """Ratios above this give no gradient where the advantage is negative (dual-clip PPO uses 3). Null: no bound."""

    kl: KlEstimator = "k3"
    """Per-token estimate of KL(policy || reference) added to the loss (Schulman's names). `k3` is GRPO's. On policy,
    `k2` has the true KL's gradient, and `k1` one of zero mean: as a loss it adds noise and no pull."""

    beta: float = Field(0.0, ge=0, allow_inf_nan=False)
    """Weight of that KL. At 0 no reference log-probs need computing."""

    importance: Importance = "none"
    """What is done about sampler and trainer giving one token different probabilities, by the weight w = trainer's /
    sampler's. `none`: measured only. `truncate`: every term of the loss times w, held between the two bounds (truncated
    importance sampling). `mask`: times w inside the bounds, and a token outside them dropped (IcePop)."""

    importance_low: float = Field(0.0, ge=0, le=1)
    """Lower bound of w, which is 1 where sampler and trainer agree. IcePop uses 0.5."""

    importance_high: float = Field(5.0, ge=1, allow_inf_nan=False)
    """Upper bound of w. NVIDIA's recipes and IcePop use 5."""

    aggregation: Literal["token_mean", "sequence_mean", "constant"] = "token_mean"
    """How token terms become one number, always over the whole global batch. `token_mean`: mean over all response
    tokens (DAPO). `sequence_mean`: mean over each sample's tokens, then over samples (GRPO, GSPO). `constant`: sum over
    each sample's tokens / `tokens_per_sample`, then mean over samples (Dr. GRPO)."""

    tokens_per_sample: float | None = Field(None, gt=0, allow_inf_nan=False)
    """The constant of `aggregation: constant`, in tokens; usually the longest response allowed. Null otherwise."""

    entropy_bonus: float = Field(0.0, ge=0, allow_inf_nan=False)
    """Weight of the policy's per-token entropy (nats), which is maximised. 0.001 to 0.01 where exploration dies."""

    @model_validator(mode="after")
    def _fits_together(self) -> "ObjectiveConfig":
        if self.aggregation == "constant" and self.tokens_per_sample is None:
            raise ValueError("aggregation constant needs tokens_per_sample: set it to the longest response allowed")
        if self.surrogate == "cispo" and (self.ratio != "token" or self.dual_clip is not None):
            raise ValueError("surrogate cispo weighs single tokens: set ratio to token and dual_clip to null")
        if self.importance == "none":
            for name in ("importance_low", "importance_high"):
                if getattr(self, name) != type(self).model_fields[name].default:
                    raise ValueError(
                        f"{name} is {getattr(self, name):g}, which importance none does not use: "
                        "drop it, or set importance to truncate or mask"
                    )
        if self.aggregation != "constant" and self.tokens_per_sample is not None:
            raise ValueError(
                f"tokens_per_sample is {self.tokens_per_sample:g}, which aggregation {self.aggregation} does not use: "
                "drop it, or set aggregation to constant"
            )
        return self
