"""ShareGPT conversations: `{"conversations": [{"from", "value"}], "system", "tools"}`.

- Speakers: human, user / gpt, assistant, model / system / function_call / observation, tool, function_response.
- A `function_call`'s value is `{"name", "arguments"}` as JSON, or a list of such. What gpt said right before it belongs
  to the same answer.
- gpt's values may be in Hermes' form: `<think>`, then text, then `<tool_call>` blocks (`trajectories/markup.py`); a
  tool's value may hold one `<tool_response>` block for each call.
- `tools` is a list or its JSON text. Where a row has none, its calls are taken to be described in its system prompt.
- Rows with images, audio or video are refused: this policy reads text.
"""

from typing import Any

from pivotrl.trajectories.faults import Place, RowFault, excerpt
from pivotrl.trajectories.markup import assistant_message, calls_of, split_blocks
from pivotrl.trajectories.messages import normalise
from pivotrl.trajectories.metadata import small
from pivotrl.trajectories.readers.openai_chat import reward_of, verifier_of
from pivotrl.trajectories.records import Tool, Trajectory
from pivotrl.trajectories.tools import normalise_tools

SPEAKERS = {
    "human": "user",
    "user": "user",
    "gpt": "assistant",
    "assistant": "assistant",
    "model": "assistant",
    "system": "system",
    "function_call": "function_call",
    "observation": "tool",
    "tool": "tool",
    "function_response": "tool",
}
MEDIA = ("images", "image", "audios", "audio", "videos", "video")


def is_row(row: dict[str, Any]) -> bool:
    talk = row.get("conversations", row.get("messages"))
    return isinstance(talk, list) and any(isinstance(entry, dict) and "from" in entry for entry in talk[:1])


def read_row(row: dict[str, Any], index: int, place: Place, default_tools: list[Tool]) -> Trajectory:
    """One conversation. Raises RowFault."""
    talk = row.get("conversations", row.get("messages"))
    if not isinstance(talk, list) or not talk:
        raise RowFault("no_messages", f"conversations is {excerpt(talk)}", 'write a list of {"from", "value"}')
    if media := [key for key in MEDIA if row.get(key)]:
        raise RowFault("content_not_text", f"the row has {', '.join(media)}", "keep rows of text only")
    messages: list[dict[str, Any]] = []
    if row.get("system"):
        messages.append({"role": "system", "content": row["system"]})
    joined = False
    for number, entry in enumerate(talk):
        try:
            joined = _add(messages, entry, joined)
        except RowFault as fault:
            fault.inside = f"message {number}"
            raise
    return Trajectory(
        id=str(row.get("id", index)),
        messages=normalise(messages),
        tools=normalise_tools(row.get("tools")) or default_tools,
        file=place.file,
        row=place.row,
        reward=reward_of(row),
        verifier=verifier_of(row),
        metadata=small(row.get("metadata")),
    )


def _add(messages: list[dict[str, Any]], entry: Any, may_join: bool) -> bool:
    """Append what the entry says. Returns whether a `function_call` right after it belongs to the same answer."""
    speaker = entry.get("from") if isinstance(entry, dict) else entry
    role = SPEAKERS.get(speaker) if isinstance(speaker, str) else None
    if role is None:
        raise RowFault("bad_role", f"from is {excerpt(speaker)}", f"write one of {', '.join(SPEAKERS)}")
    value = entry.get("value")
    if not isinstance(value, str):
        raise RowFault("not_text", f"value is {excerpt(value)}", "write value as a string")
    if role == "function_call":
        calls = calls_of(value)
        if may_join:
            messages[-1]["tool_calls"] = calls
        else:
            messages.append({"role": "assistant", "content": "", "tool_calls": calls})
        return False
    if role == "assistant":
        messages.append(assistant_message(value))
        return "tool_calls" not in messages[-1]
    if role == "tool":
        text, blocks = split_blocks(value, "tool_response")
        messages.extend({"role": "tool", "content": block} for block in (blocks if blocks and not text else [value]))
        return False
    messages.append({"role": role, "content": value})
    return False
