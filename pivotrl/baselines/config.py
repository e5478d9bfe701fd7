"""What supervised fine-tuning is told; end-to-end RL reads `training` and `environment`."""

from pydantic import Field

from pivotrl.schema import Section


class SftConfig(Section):
    """Section `sft` of a run of `pivotrl.baselines.sft`."""

    trajectories_per_step: int = Field(16, ge=1)
    """Trajectories of one optimizer step. For as much data as PivotRL's steps see, take training.pivots_per_step
    divided by a trajectory's turns."""
    epochs: int | None = Field(None, ge=1)
    """Passes over the training split; null: training.steps says when to end. The few trajectories that fill no batch
    are left out of a pass, others each time."""
