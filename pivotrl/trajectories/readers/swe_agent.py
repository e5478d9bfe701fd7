"""SWE-agent's `.traj`: one JSON object a file, whose `history` holds what the agent's model was shown and answered.

- With function calling, an assistant entry's `content` is its thought and `tool_calls` its action; a result names its
  call in `tool_call_ids`. The older thought-action form has no `tool_calls`: the whole text is the action, a message.
- Entries of other agents than the first entry's were never shown to it, and are left out.
- Demonstrations (`is_demo`) are history and no turns.
- The file lists no tools: where the user gives none, they are inferred from the calls of all `.traj` files of the run.
  In the thought-action form there are none: the system prompt tells of the commands.
- A submitted patch is not a resolved issue: the reward is the row's own `reward`, which `sweagent` does not write. With
  `min_reward`, add it, or list the files of resolved issues only.
- Trajectories of one issue (`instance_id`, or the stem of a file `ISSUE.traj`) stay on one side of the split.
- Where the run's configuration shortened the history (old outputs elided), the file does not tell: the whole is used.
"""

from pathlib import Path
from typing import Any

from pivotrl.trajectories.faults import Place, RowFault, excerpt
from pivotrl.trajectories.messages import normalise
from pivotrl.trajectories.metadata import small
from pivotrl.trajectories.readers.openai_chat import reward_of, verifier_of
from pivotrl.trajectories.records import Tool, Trajectory
from pivotrl.trajectories.tools import tools_if_called


def is_row(row: dict[str, Any]) -> bool:
    history = row.get("history")
    return isinstance(history, list) and any(isinstance(entry, dict) and "role" in entry for entry in history[:1])


def read_row(row: dict[str, Any], index: int, place: Place, default_tools: list[Tool]) -> Trajectory:
    """One `.traj` object. Raises RowFault."""
    history = row.get("history")
    if not isinstance(history, list) or not history or not all(isinstance(entry, dict) for entry in history):
        raise RowFault("no_messages", f"history is {excerpt(history)}", 'write {"history": [{"role", "content"}, ...]}')
    agent = history[0].get("agent")
    entries = [entry for entry in history if entry.get("agent") == agent]
    messages = normalise([_message(entry) for entry in entries])
    instance = row.get("instance_id") or (Path(place.file).stem if place.file.endswith(".traj") else "")
    info = row.get("info") if isinstance(row.get("info"), dict) else {}
    told = {"instance_id": instance or None, "exit_status": info.get("exit_status")}
    return Trajectory(
        id=str(row.get("instance_id") or index),
        messages=messages,
        tools=tools_if_called(messages, default_tools),
        file=place.file,
        row=place.row,
        reward=reward_of(row),
        group=f"issue {instance}" if instance else "",
        verifier=verifier_of(row),
        metadata=small(told),
        context=[number for number, entry in enumerate(entries) if entry.get("is_demo") and _is_assistant(entry)],
    )


def _is_assistant(entry: dict[str, Any]) -> bool:
    return entry.get("role") == "assistant"


def _message(entry: dict[str, Any]) -> dict[str, Any]:
    message = {"role": entry.get("role"), "content": entry.get("content")}
    if _is_assistant(entry):
        message["tool_calls"] = entry.get("tool_calls")
        message["reasoning_content"] = _thinking(entry.get("thinking_blocks"))
    elif entry.get("role") == "tool" and isinstance(ids := entry.get("tool_call_ids"), list) and ids:
        message["tool_call_id"] = ids[0]  # SWE-agent runs one call at a time
    return message


def _thinking(blocks: Any) -> str:
    """The text of the thinking that a reasoning model's answer came with."""
    if not isinstance(blocks, list):
        return ""
    texts = [block.get("thinking") for block in blocks if isinstance(block, dict)]
    return "".join(text for text in texts if isinstance(text, str))
