"""Section `health` of a run: what a healthy step looks like, and what happens where one does not."""

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, model_validator

from pivotrl.schema import Section

Action = Annotated[Literal["off", "warn", "stop"], BeforeValidator(lambda value: "off" if value is False else value)]
"""YAML reads a bare `off` as false."""


class GateConfig(Section):
    """One gate; `health.gap: stop` alone is short for `health.gap: {action: stop}`."""

    action: Action = "warn"
    """`off`; `warn`: a line on the terminal and in `health.jsonl`; `stop`: save a checkpoint, and end with exit code
    3."""
    patience: int = Field(1, ge=1)
    """Steps in a row that must be out of bounds."""

    @model_validator(mode="before")
    @classmethod
    def _action_alone(cls, value: Any) -> Any:
        return {"action": value} if isinstance(value, str | bool) else value


class GapGate(GateConfig):
    above: float = Field(0.05, gt=0)
    """Mean absolute difference between the sampler's and the trainer's log-prob of a sampled token, in nats. In float32
    it is about 1e-6; above this bound in bfloat16 the engine does not hold the policy's weights, or the two choose
    other experts."""


class CanaryGate(GateConfig):
    above: float | None = Field(None, gt=0)
    """Largest canary error after a refit, in nats. null: 5e-4 in float32, 1 in bfloat16. The refit itself stops the run
    at `rollout.canary_tolerance`, whatever this gate is set to."""


class GradNormGate(GateConfig):
    above: float | None = Field(None, gt=0)
    """Largest norm of the gradient before clipping; null has no such bound."""
    times: float | None = Field(10.0, gt=1)
    """Largest multiple of the median of the last `health.window` steps; null has no such bound."""


class EntropyGate(GateConfig):
    below: float = Field(0.005, ge=0)
    """Smallest mean entropy at a sampled token, in nats."""
    share_of_start: float = Field(0.1, ge=0, lt=1)
    """Smallest share of the mean entropy of the first `health.window` steps; 0 has no such bound."""


class FormatGate(GateConfig):
    above: float = Field(0.5, gt=0, le=1)
    """Largest share of sampled actions whose verdict gives one of `reasons`."""
    reasons: tuple[str, ...] = (
        "format",
        "no_action",
        "cut_off",
        "empty_message",
        "arguments_not_json",
        "unusable_arguments",
        "model_output_invalid",
    )
    """Reasons that say that the action could not be read. Those of your own verifier go here."""


class ReasonsGate(GateConfig):
    above: float = Field(0.6, gt=0, le=1)
    """Largest total variation distance between the shares of the verdicts' reasons and their mean over the first
    `health.window` steps: 0 where they are the same, 1 where no reason is common. Learning moves them as well: a reward
    that rises from 0.4 to 0.8 is a distance of 0.4."""


class RefitGate(GateConfig):
    patience: int = Field(3, ge=1)
    """Steps in a row that must be out of bounds."""
    times: float = Field(2.0, gt=1)
    """Largest multiple of the median refit of the first `health.window` steps."""
    at_least: float = Field(1.0, ge=0)
    """Seconds below which a refit is never called slow."""


class RefitTrendGate(GateConfig):
    share_of_start: float = Field(0.75, gt=0, lt=1)
    """Smallest share of the median GB/s of the first `health.window` steps that the median of the last as many keeps:
    it hears what wears down by a little each step, which no single refit shows."""
    at_least: float = Field(1.0, ge=0)
    """Seconds that the median refit must take for its trend to count."""


class HealthConfig(Section):
    window: int = Field(20, ge=2)
    """Steps that a running median looks back on, and first steps that count as the start of the run."""
    finite: GateConfig = GateConfig(action="stop")
    """The loss and the gradient are finite numbers. An update that is not is never applied, whatever this is set to;
    with `warn` the run goes on with the next batch."""
    gap: GapGate = GapGate()
    """The sampler's log-probs are the trainer's."""
    canary: CanaryGate = CanaryGate()
    """The engine holds the policy's weights after a refit."""
    grad_norm: GradNormGate = GradNormGate()
    """The gradient does not spike."""
    entropy: EntropyGate = EntropyGate(patience=3)
    """The policy still explores."""
    format: FormatGate = FormatGate()
    """Actions can be read."""
    reasons: ReasonsGate = ReasonsGate(patience=3)
    """Rewards are given for the reasons that they were given for at first."""
    refit: RefitGate = RefitGate()
    """No refit is much slower than at first."""
    refit_trend: RefitTrendGate = RefitTrendGate()
    """Refits do not become slower and slower."""
