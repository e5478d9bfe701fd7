"""One completion at one turn: all that a verifier may look at."""

from dataclasses import dataclass, field
from typing import Any

from pivotrl.trajectories.records import Action, Message, Tool

Item = dict[str, Any]
"""A Responses-API output item: `{"type": "function_call", "name", "arguments": str}` or `{"type": "message", "content":
str}`. What a model wrote: keys may be missing, and values may be of any type."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """What the expert did at a turn, and what the model did there. Nothing in it is changed by a verifier."""

    expert: Action
    """Checked when its row was read (`trajectories.actions.check_action`)."""
    items: list[Item]
    """The model's output, untrusted, in any number and order."""
    text: str | None = None
    """The completion as it was written, markup and thinking included, untrusted; None where only the items are
    known."""
    tools: list[Tool] = field(default_factory=list)
    """The turn's tools in OpenAI's form, with their JSON schemas."""
    messages: list[Message] = field(default_factory=list)
    """The history before the turn, in OpenAI's form."""
    metadata: dict[str, Any] = field(default_factory=dict)
    """The row's own, such as `{"harness": "terminus_2"}`."""
