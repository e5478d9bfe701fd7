"""What a run reports, and to whom."""

from pydantic import Field

from pivotrl.schema import Section


class TelemetryConfig(Section):
    """Section `telemetry` of a run. `metrics.jsonl` and one terminal line a step are always written."""

    tensorboard: bool = True
    """Write TensorBoard event files to `tensorboard/` in the run folder."""
    wandb_project: str | None = Field(None, min_length=1)
    """Weights & Biases project to log to as well. Needs `pip install wandb`; null logs nowhere."""
