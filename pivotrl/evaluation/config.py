"""What an evaluation measures, and how its intervals are made."""

from typing import Literal

from pydantic import Field

from pivotrl.schema import Section

Part = Literal["turns", "tasks", "families"]


class EvaluationConfig(Section):
    """Section `evaluation` of a run."""

    sampled: list[Part] = Field(default_factory=lambda: ["turns", "tasks", "families"])
    """What is measured on samples at `temperature`: held-out turns, live tasks, questions of other families. Tasks need
    `environment` and families need `families`; what lacks it is left out."""
    greedy: list[Part] = Field(default_factory=lambda: ["turns", "tasks", "families"])
    """What is measured on greedy completions."""
    samples: int = Field(8, ge=1)
    """Samples of each held-out turn and of each question, where they are sampled."""
    temperature: float = Field(1.0, gt=0)
    """Of the sampled measurements."""
    trajectories: int | None = Field(500, ge=1)
    """Held-out trajectories whose turns are measured, at most: drawn evenly by a hash of their ids; null: all."""
    environment: str | None = None
    """Live world to play, as `environment.name`; null: no tasks are played."""
    stream: str = "live"
    """Its stream of tasks; take another one than training's."""
    tasks: int = Field(256, ge=1)
    """Tasks of the stream played, from number 0 on."""
    families: str | None = None
    """JSON Lines file of questions that training never touches: {"family", "messages", "answer"}, the answer compared
    exactly; null: none are asked."""
    answer_tokens: int = Field(256, ge=1)
    """Tokens of an answer, at most."""
    seed: int = Field(0, ge=0)
    """Of the samples and of the bootstrap. The run's own seed decides which trajectories are held out."""
    draws: int = Field(5000, ge=100)
    """Bootstrap draws behind an interval."""
    confidence: float = Field(0.95, gt=0, lt=1)
    """Of the intervals."""
