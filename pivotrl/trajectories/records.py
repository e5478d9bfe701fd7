"""The records that travel from an expert's file to a training step. JSON Lines on disk, plain dicts inside."""

from dataclasses import dataclass, field, fields
from typing import Any, Self

Message = dict[str, Any]
"""One chat message in OpenAI's form: role, content (str) and, for an assistant, maybe `tool_calls` whose
`function.arguments` is a JSON string."""
Tool = dict[str, Any]
"""`{"type": "function", "function": {"name", "description", "parameters"}}`."""
Action = dict[str, Any]
"""What the expert did, in NeMo-Gym's shapes: `{"type": "message", "content"}`, `{"type": "function_call", "name",
"arguments"}` or
`{"type": "function_call_batch", "calls": [function_call, ...]}`; `arguments` is a JSON string that holds an object."""


class _Json:
    """`to_json` and `from_json` of a dataclass whose fields are JSON values already."""

    def to_json(self) -> dict[str, Any]:
        """The fields by name. Not a copy: messages and tools are the record's own lists."""
        return {item.name: getattr(self, item.name) for item in fields(self)}

    @classmethod
    def from_json(cls, row: dict[str, Any]) -> Self:
        """Inverse of `to_json`; raises TypeError on a missing or unknown key."""
        return cls(**row)


@dataclass(frozen=True)
class Trajectory(_Json):
    """One episode as a reader found it, or (when `expert` is set) one ready-made turn whose history is `messages`."""

    id: str
    messages: list[Message]
    tools: list[Tool]
    file: str
    """The file's name."""
    row: str
    """`line 7` (1-based) or `item 3` (0-based)."""
    reward: float | None = None
    group: str = ""
    """What must not be torn apart by the split, where that is wider than one trajectory (trials of one task); empty:
    the id."""
    expert: Action | None = None
    verifier: dict[str, Any] = field(default_factory=dict)
    metadata: dict[str, Any] = field(default_factory=dict)
    """The row's own `metadata` without its large values (`metadata.small`); verifiers may read it (a terminal row's
    `harness`)."""
    context: list[int] = field(default_factory=list)
    """Indices of assistant messages that the expert saw but did not write here (demonstrations, copied context): part
    of the history, and no turns."""


@dataclass(frozen=True)
class Turn(_Json):
    """A candidate: the whole history before one assistant turn, and what the expert did there."""

    id: str
    trajectory_id: str
    turn_index: int
    """0-based, counted over assistant turns."""
    n_turns: int
    """Assistant turns of the whole trajectory; 0 where the file does not tell."""
    messages: list[Message]
    tools: list[Tool]
    expert: Action
    verifier: dict[str, Any]
    """The row's own `name`, `preset` and `params`, which override the run's; empty for most files."""
    source: str
    """File and row, as in `airline.json item 3`."""
    split: str
    """`train` or `heldout`."""
    metadata: dict[str, Any] = field(default_factory=dict)
    """The row's own, as in `Trajectory`."""


@dataclass(frozen=True)
class Rejected(_Json):
    """A row or a turn that cannot be used: counted and written to `rejected.jsonl`, never lost in silence."""

    file: str
    row: str
    """`line 7` (1-based) or `item 3` (0-based), with `turn 2` or `message 5` added where the fault is inside the
    row."""
    reason: str
    """A short key to count by."""
    found: str
    write: str
    """What to write instead."""
    id: str = ""
    """The turn's id, where the row got as far as being a turn."""

    def __str__(self) -> str:
        return f"{self.file} {self.row}: {self.reason}: {self.found}; {self.write}"


@dataclass(frozen=True)
class Profile(_Json):
    """What K samples of the frozen policy earned at one turn."""

    id: str
    rewards: list[float]
    reasons: list[str]
    mean: float
    variance: float
    """Population variance (divided by K)."""
    policy: str
    sampling: dict[str, Any]


@dataclass(frozen=True)
class Pivot(_Json):
    """A turn that teaches: its profile, and the prompt's token ids (the same ids go to the sampler and to the
    trainer)."""

    turn: Turn
    profile: Profile
    prompt_ids: list[int]
    template_hash: str

    @property
    def id(self) -> str:
        return self.turn.id

    def to_json(self) -> dict[str, Any]:
        return super().to_json() | {"turn": self.turn.to_json(), "profile": self.profile.to_json()}

    @classmethod
    def from_json(cls, row: dict[str, Any]) -> Self:
        return cls(
            turn=Turn.from_json(row["turn"]),
            profile=Profile.from_json(row["profile"]),
            prompt_ids=row["prompt_ids"],
            template_hash=row["template_hash"],
        )
