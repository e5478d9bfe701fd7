"""One conversation checked and brought to one form: text contents, calls with ids and string arguments, results that
belong to calls."""

import json
from typing import Any

from pivotrl.trajectories.faults import RowFault, excerpt
from pivotrl.trajectories.records import Message
from pivotrl.trajectories.text import check_arguments, text

ROLES = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "assistant": "assistant",
    "tool": "tool",
    "function": "tool",
}


def normalise(messages: Any) -> list[Message]:
    """OpenAI chat messages in the one form that the rest of the program knows.

    Contents become strings (null: empty; a list of text parts: joined), call arguments become JSON strings, missing
    call ids are numbered, `developer` becomes `system`, and the old `function_call` becomes `tool_calls`. Whether
    arguments are well-formed is not asked here: a malformed call in the history is still what the expert saw.

    Raises RowFault, with the message's index.
    """
    if not isinstance(messages, list) or not messages:
        raise RowFault("no_messages", f"messages is {excerpt(messages)}", "write a list of chat messages")
    result: list[Message] = []
    open_calls: list[str] = []
    known_calls: set[str] = set()
    for index, message in enumerate(messages):
        try:
            result.append(_normalise_one(message, index, open_calls, known_calls))
        except RowFault as fault:
            fault.inside = f"message {index}"
            raise
    return result


def _normalise_one(message: Any, index: int, open_calls: list[str], known_calls: set[str]) -> Message:
    role = message.get("role") if isinstance(message, dict) else message
    if not isinstance(message, dict) or not isinstance(role, str) or role not in ROLES:
        raise RowFault("bad_role", f"role is {excerpt(role)}", f"write one of {', '.join(ROLES)}")
    role = ROLES[role]
    result: Message = {"role": role, "content": _content(message.get("content"))}
    if role == "assistant":
        calls = message.get("tool_calls")
        if not calls and message.get("function_call"):
            calls = [{"function": message["function_call"]}]
        if calls:
            result["tool_calls"] = _calls(calls, index)
            open_calls[:] = [call["id"] for call in result["tool_calls"]]
            known_calls.update(open_calls)
        if message.get("reasoning_content"):
            result["reasoning_content"] = text(message["reasoning_content"], "reasoning_content")
    elif role == "tool":
        identity = _identity(message, "tool_call_id") or (open_calls[0] if open_calls else None)
        if identity not in known_calls:
            raise RowFault(
                "tool_message_without_call",
                f"a tool result for {excerpt(identity)}, which no assistant message before it called",
                "put the assistant message with that tool call before its result",
            )
        if identity in open_calls:
            open_calls.remove(identity)
        result["tool_call_id"] = identity
        if message.get("name"):
            result["name"] = text(message["name"], "name")
    return result


def _calls(calls: Any, index: int) -> list[dict[str, Any]]:
    if not isinstance(calls, list):
        raise RowFault("bad_tool_calls", f"tool_calls is {excerpt(calls)}", "write a list of calls")
    result = []
    for position, call in enumerate(calls):
        function = call.get("function") if isinstance(call, dict) else None
        if not isinstance(function, dict) or not isinstance(function.get("name"), str) or not function["name"]:
            raise RowFault(
                "bad_tool_calls",
                f"tool_calls[{position}] is {excerpt(call)}",
                'write {"id", "type": "function", "function": {"name", "arguments"}}',
            )
        arguments = function.get("arguments")
        if isinstance(arguments, dict) or arguments is None:
            arguments = json.dumps(arguments or {}, ensure_ascii=False)
        result.append(
            {
                "id": _identity(call, "id") or f"call_{index}_{position}",
                "type": "function",
                "function": {
                    "name": text(function["name"], "name"),
                    "arguments": check_arguments(arguments),
                },
            }
        )
    return result


def _identity(holder: dict[str, Any], key: str) -> str:
    """The id under `key`; empty where there is none. Raises RowFault."""
    identity = holder.get(key)
    return "" if identity is None else text(identity, key)


def _content(content: Any) -> str:
    if content is None:
        return ""
    if isinstance(content, list):
        parts = []
        for part in content:
            if isinstance(part, dict) and isinstance(part.get("text"), str):
                part = part["text"]
            if not isinstance(part, str):
                raise RowFault(
                    "content_not_text",
                    f"a content part {excerpt(part)}",
                    "keep text parts only: this policy reads text",
                )
            parts.append(part)
        content = "".join(parts)
    return text(content, "content")
