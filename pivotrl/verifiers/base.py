"""Is a sampled action as good as the expert's? The interface, and the choice of a verifier by its name."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

from pydantic import Field

from pivotrl.schema import Section


class VerifierConfig(Section):
    """Section `verifier` of a run."""

    name: str = "tool_call"
    """`tool_call`: functional equivalence as in NVIDIA NeMo-Gym. `exact`: the strict string match of the paper's
    ablation."""
    params: dict[str, Any] = Field(default_factory=dict)
    """The verifier's own parameters; a row's `verifier.params` override them one by one."""


@dataclass(frozen=True)
class Verdict:
    """A reward in [0, 1] and the reason for it, one of the verifier's few fixed keys."""

    reward: float
    reason: str


class Verifier(ABC):
    """Compares what a model did with what the expert did. Subclasses hold no state that a verdict changes."""

    @abstractmethod
    def verify(
        self, expert: dict[str, Any], items: list[dict[str, Any]], params: dict[str, Any] | None = None
    ) -> Verdict:
        """Judge one completion.

        Args:
            expert: the expert's action (`pivotrl.trajectories.records.Action`), checked when its row was read.
            items: the model's output, untrusted, as Responses-API items: `{"type": "function_call", "name",
            "arguments": str}`
                and `{"type": "message", "content": str}`, in any number and order.
            params: a row's overrides of the verifier's parameters.

        Never raises because of `items`, whatever a model wrote. Raises ValueError for an unknown or unusable parameter.
        """


def build_verifier(config: VerifierConfig) -> Verifier:
    """The verifier that `config` names. Raises ValueError for an unknown name or parameter."""
    from pivotrl.verifiers.exact import ExactVerifier
    from pivotrl.verifiers.tool_call import ToolCallVerifier

    classes = {"tool_call": ToolCallVerifier, "exact": ExactVerifier}
    if config.name not in classes:
        raise ValueError(f"verifier.name: {config.name!r} is not a verifier; write one of {', '.join(sorted(classes))}")
    return classes[config.name](config.params)
