"""The parameters of `judge`."""

from pydantic import Field, model_validator

from pivotrl.schema import Section
from pivotrl.verifiers.robust.wellformed import Thinking

ENGINE = "engine"
"""The endpoint that is the run's own co-located engine."""
OF_ROWS = ("rubric", "both_orders", "thinking")
"""What a row may override. Not where questions go, nor with which key: data never decides that."""


class JudgeParams(Section):
    """Who judges, by what, and how often it is asked."""

    endpoint: str
    """`http://host:port/v1` of a server that speaks OpenAI's chat completions, or `engine`: the run's own engine."""
    model: str = ""
    """The judge's name at the endpoint; not needed for `engine`."""
    api_key_env: str | None = None
    """Name of the environment variable that holds the endpoint's key (never the key itself); null: none is sent."""
    rubric: str | None = Field(None, max_length=8000)
    """What counts as equivalent, in a paragraph; null: the same effect and the same information."""
    max_tokens: int = Field(1024, ge=1)
    """Tokens of one answer, its thinking included; an answer that is cut off is no verdict."""
    temperature: float = Field(0.0, ge=0, le=2)
    """0 is greedy."""
    timeout: float = Field(60.0, gt=0)
    """Seconds for one answer, from the question to its last byte."""
    retries: int = Field(4, ge=0, le=20)
    """Further tries, at growing intervals, where the endpoint cannot be reached, is late, or says 408, 429 or 5xx."""
    concurrency: int = Field(16, ge=1, le=1024)
    """Questions that are under way at a time."""
    cache: str | None = None
    """Folder (or `.sqlite3` file) on a local disk that keeps verdicts for later runs; null: none is kept."""
    price_in: float = Field(0.0, ge=0)
    """Price of a million prompt tokens, in any currency."""
    price_out: float = Field(0.0, ge=0)
    """Price of a million completion tokens."""
    both_orders: bool = True
    """Ask twice, with the actions' places exchanged, and require the same verdict."""
    guided: bool = False
    """Let the server hold the answer to the two verdict lines (vLLM's `structured_outputs`): no thinking, no answer
    that is unclear, and even a small model can answer."""
    thinking: Thinking = "auto"
    """Whether the judged completion must think first, as in `robust`."""

    @model_validator(mode="after")
    def _fits_endpoint(self) -> "JudgeParams":
        if self.endpoint == ENGINE:
            if self.cache is not None:
                raise ValueError(
                    "cache cannot keep the verdicts of `endpoint: engine`, whose weights change; write null"
                )
            if self.guided:
                raise ValueError("guided needs a vLLM server; write false for `endpoint: engine`")
        elif not self.endpoint.startswith(("http://", "https://")):
            raise ValueError(f"endpoint is {self.endpoint!r}; write http://host:port/v1, or engine")
        elif not self.model:
            raise ValueError("model is empty; write the name under which the endpoint serves the judge")
        return self
