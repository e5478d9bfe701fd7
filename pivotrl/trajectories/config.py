"""What the user says about the expert's trajectories."""

from typing import Literal

from pydantic import Field

from pivotrl.schema import Section


class TrajectoriesConfig(Section):
    """Section `trajectories` of a run."""

    files: list[str] = Field(default_factory=list)
    """Files to read, in this order; each may have another format."""
    format: Literal[
        "auto", "openai_chat", "tau_bench", "nemo_gym", "swe_agent", "mini_swe_agent", "atif", "sharegpt"
    ] = "auto"
    """`auto` looks at each file's content."""
    min_reward: float | None = None
    """Keep trajectories whose final reward is at least this (1 keeps the successes of tau-bench); null keeps all, also
    those without a reward."""
    tools: str | None = None
    """JSON file with a list of tools in OpenAI's form, for rows that carry none; null: those of tau-bench, SWE-agent
    and ATIF files are inferred from the calls in them (names and types of arguments, no descriptions)."""
    row_verifiers: bool = True
    """A row that names its verifier (`verifier`, or NeMo-Gym's `agent_ref`) is judged by that one; false: all rows are
    judged by the run's."""
    heldout_share: float = Field(0.1, ge=0, lt=1)
    """Share of the trajectories kept out of pivots and training; drawn by a hash of the trajectory's id (tau-bench: of
    its task) and the run's seed."""
