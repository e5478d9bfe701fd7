"""mini-swe-agent's `.traj.json`: the chat of one run, in any of its versions.

- `[{"role", "content"}, ...]` alone; `{"messages", "info", "trajectory_format"}`; since 2.0 with `tool_calls`.
- Without `tool_calls`, an assistant's message holds one fenced block of bash, and the whole message is the expert's
  action: the verifier `shell` compares the blocks. With them, the one tool is `bash`, and `shell` compares `command`.
- Answers in the form of the Responses API (`{"object": "response", "output": [items]}`) are read, too.
- The entry of role `exit` and the key `extra` are the program's own notes, which its model never saw.
- The reward is the row's own `reward`, which the program does not write: a submission is not a resolved issue.
- Trajectories of one issue (`instance_id`) stay on one side of the split.
"""

from typing import Any

from pivotrl.trajectories.faults import Place, RowFault, excerpt
from pivotrl.trajectories.messages import normalise
from pivotrl.trajectories.metadata import small
from pivotrl.trajectories.readers.nemo_gym import chat_messages
from pivotrl.trajectories.readers.openai_chat import reward_of, verifier_of
from pivotrl.trajectories.records import Tool, Trajectory
from pivotrl.trajectories.tools import normalise_tools, tools_if_called

FENCES = ("```mswea_bash_command\n", "```bash\n")
KEYS_OF_INFO = frozenset({"mini_version", "model_stats", "exit_status"})
_COMMAND = {"type": "string", "description": "The bash command to execute"}
BASH: Tool = {
    "type": "function",
    "function": {
        "name": "bash",
        "description": "Execute a bash command",
        "parameters": {"type": "object", "properties": {"command": _COMMAND}, "required": ["command"]},
    },
}
"""What the program offers its model when it asks for tool calls."""


def is_row(row: dict[str, Any]) -> bool:
    messages, info = row.get("messages"), row.get("info")
    if not isinstance(messages, list):
        return False
    if str(row.get("trajectory_format", "")).startswith("mini-swe-agent"):
        return True
    if isinstance(info, dict):
        return not KEYS_OF_INFO.isdisjoint(info)
    return row.keys() == {"messages"} and any(_has_fence(message) for message in messages)


def _has_fence(message: Any) -> bool:
    content = message.get("content") if isinstance(message, dict) and message.get("role") == "assistant" else None
    return isinstance(content, str) and any(fence in content for fence in FENCES)


def read_row(row: dict[str, Any], index: int, place: Place, default_tools: list[Tool]) -> Trajectory:
    """One run. Raises RowFault."""
    messages = row.get("messages")
    if not isinstance(messages, list) or not all(isinstance(message, dict) for message in messages):
        raise RowFault("no_messages", f"messages is {excerpt(messages)}", "write a list of chat messages")
    messages = normalise([item for message in messages if message.get("role") != "exit" for item in _chat(message)])
    instance = row.get("instance_id")
    info = row.get("info") if isinstance(row.get("info"), dict) else {}
    return Trajectory(
        id=str(instance or index),
        messages=messages,
        tools=normalise_tools(row.get("tools")) or tools_if_called(messages, default_tools or [BASH]),
        file=place.file,
        row=place.row,
        reward=reward_of(row),
        group=f"issue {instance}" if instance else "",
        verifier=verifier_of(row),
        metadata=small({"instance_id": instance, "exit_status": info.get("exit_status")}),
    )


def _chat(message: dict[str, Any]) -> list[dict[str, Any]]:
    """A message, or what the Responses API has in its place, as chat messages. Raises RowFault."""
    if message.get("object") == "response" or message.get("type") == "function_call_output":
        return chat_messages({"input": message.get("output") if "object" in message else [message]})
    return [message]
