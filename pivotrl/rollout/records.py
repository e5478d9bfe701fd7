"""What goes into an engine and what comes out."""

from dataclasses import dataclass, field

from pivotrl.policy.routes import Routes


@dataclass(frozen=True, slots=True)
class Request:
    """A prompt to be continued `n` times."""

    prompt_ids: list[int]
    n: int
    """Samples."""
    seed: int
    """Decides the samples together with the prompt; requests of different seeds draw unrelated noise."""
    temperature: float
    """0 is greedy."""
    top_p: float
    max_tokens: int
    """Sampled tokens, at most."""
    routes: bool = False
    """Whether the samples bring the experts that their tokens went to; needs an engine that returns routes."""
    first: int = 0
    """Number of its first sample: sample i draws from the seed and first + i, so a prompt's samples [0, K) are the same
    ones however they are split into rounds."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One continuation."""

    token_ids: list[int]
    """Sampled tokens, with the end token where it was sampled."""
    logprobs: list[float]
    """Log-prob of each sampled token under the model's own distribution: temperature 1, before top-p."""
    finish: str
    """`stop` where the end token was sampled, `length` where the tokens ran out."""
    routes: Routes | None = field(default=None, compare=False)
    """Of every token but the last, which the engine never ran. The samples of a request share those of its prompt."""
