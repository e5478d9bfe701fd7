"""What a run reports, and to whom."""

from pydantic import Field

from pivotrl.schema import Section


class TelemetryConfig(Section):
    """Section `telemetry` of a run. `metrics.jsonl`, `heartbeat.json` and one terminal line a step are always there."""

    tensorboard: bool = True
    """Write TensorBoard event files to `tensorboard/` in the run folder."""
    wandb_project: str | None = Field(None, min_length=1)
    """Weights & Biases project to log to as well. Needs `pip install wandb`; null logs nowhere."""
    trace: bool = True
    """Write the phases of every step to `trace.json` in the run folder, for https://ui.perfetto.dev: those of rank 0,
    and of each phase the rank that took longest."""
    heartbeat_seconds: float = Field(5.0, gt=0)
    """Seconds between two writings of `heartbeat.json` in the run folder."""
    gpu_seconds: float = Field(1.0, gt=0)
    """Seconds between two readings of each GPU's memory, utilisation, power, temperature and throttling."""
