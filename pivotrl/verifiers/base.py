"""Is a sampled action as good as the expert's? The interface of a verifier, and the section that chooses one."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NamedTuple

from pydantic import Field, model_validator

from pivotrl.schema import Section
from pivotrl.verifiers.attempt import Attempt

Preset = Literal["nemo_gym", "robust"]


class VerifierConfig(Section):
    """Section `verifier` of a run; `verifier: NAME` alone is short for `verifier: {name: NAME}`."""

    name: str = "tool_call"
    """A verifier of the table in docs/verifiers.md, or your own as `my_package.module:MyVerifier`."""
    preset: Preset | None = None
    """`nemo_gym`: the rewards of NVIDIA's released verifier, loopholes included. `robust`: without the loopholes. null:
    nemo_gym where the verifier has it."""
    params: dict[str, Any] = Field(default_factory=dict)
    """The verifier's own parameters; a row's `verifier.params` override them one by one."""
    workers: int = Field(1, ge=0, le=256)
    """Processes that judge, for each rank; 0 judges in the rank's own process, without a limit on time."""
    seconds: float = Field(2.0, gt=0)
    """A verdict that takes longer is given up and its worker replaced: reward 0, reason `time_limit`."""

    @model_validator(mode="before")
    @classmethod
    def _name_alone(cls, value: Any) -> Any:
        return {"name": value} if isinstance(value, str) else value


@dataclass(frozen=True, slots=True)
class Verdict:
    """A reward in [0, 1], its reason (one of the verifier's few fixed keys), and a line for a person to read."""

    reward: float
    reason: str
    detail: str = ""


class Difference(NamedTuple):
    """Why two values are not equivalent: a fixed key, and a line for a person (text of a model: shortened)."""

    reason: str
    detail: str = ""


class Verifier(ABC):
    """Compares what a model did with what the expert did. Subclasses hold no state that changes a verdict.

    A subclass is constructed with the run's `verifier.params` as its one argument, and raises ValueError for an unknown
    or unusable one. It can be constructed anew in another process: keep what it needs in importable code.
    """

    in_pool: ClassVar[bool] = True
    """Judge in worker processes under a limit on time. False: in the caller's process, for what waits on a network or
    an engine, and has time-outs of its own."""

    @abstractmethod
    def verify(self, attempt: Attempt, params: dict[str, Any] | None = None) -> Verdict:
        """Judge one completion.

        Args:
            attempt: what the expert and the model did. The expert's half was checked; the model's is untrusted.
            params: a row's overrides of the verifier's parameters.

        Never raises because of `attempt.items` or `attempt.text`, whatever a model wrote. Raises ValueError for an
        unknown or unusable parameter.
        """

    def verify_all(self, attempts: Sequence[tuple[Attempt, dict[str, Any] | None]]) -> list[Verdict]:
        """Judge many, each with its row's overrides; for verifiers that ask a server, many at a time."""
        return [self.verify(attempt, params) for attempt, params in attempts]
