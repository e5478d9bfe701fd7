"""A model's output, from a file, in the one form that verifiers read. Untrusted: nothing in it makes an error."""

import json
from typing import Any

from pivotrl.trajectories.faults import RowFault
from pivotrl.trajectories.text import check_depth
from pivotrl.verifiers.attempt import Item


def output_items(response: list[Any]) -> list[Item]:
    """A model's output items in the form that verifiers read: a message's content is a string.

    What is no object is left out, and so is a message without any text part, or of another role than the assistant's,
    which for NeMo-Gym is none. Several text parts stand on lines of their own, as NeMo-Gym's terminal verifier has
    them. Of an item that nests too deeply to be handed on, the plain values are kept. An assistant message of OpenAI's
    chat form (it has no `type`) becomes the items that it means.
    """
    items = []
    for item in response:
        if not isinstance(item, dict):
            continue
        items.extend(map(_bounded, _chat_items(item) if is_chat_message(item) else _plain(item)))
    return items


def is_chat_message(value: dict[str, Any]) -> bool:
    """Whether an object is an assistant message of OpenAI's chat form, and not a Responses-API item."""
    return value.get("role") == "assistant" and "type" not in value


def _plain(item: dict[str, Any]) -> list[Item]:
    """A Responses-API item, a message's content as one string; nothing where it is no message of the assistant's."""
    if item.get("type") != "message":
        return [item]
    if item.get("role", "assistant") != "assistant":
        return []
    if not isinstance(item.get("content"), list):
        return [item]
    texts = _texts(item["content"])
    return [item | {"content": "\n".join(texts)}] if texts else []


def _chat_items(message: dict[str, Any]) -> list[Item]:
    """The text of a chat message, where it says something or calls nothing, and its calls. A call that has no
    `function` is one without a name: it was made, and matches none."""
    calls = message.get("tool_calls")
    if not calls and message.get("function_call") is not None:
        calls = [{"function": message["function_call"]}]
    items = [_chat_call(call) for call in calls] if isinstance(calls, list) else []
    content = message.get("content")
    if isinstance(content, list):
        content = "\n".join(_texts(content))
    if isinstance(content, str) and (content.strip() or not items):
        return [{"type": "message", "content": content}, *items]
    return items


def _chat_call(call: Any) -> Item:
    function = call.get("function") if isinstance(call, dict) else None
    if not isinstance(function, dict):
        return {"type": "function_call"}
    found = _bounded({key: function[key] for key in ("name", "arguments") if key in function})
    if isinstance(found.get("arguments"), dict):  # some templates and servers hand them on parsed
        found["arguments"] = json.dumps(found["arguments"])
    return {"type": "function_call"} | found


def _texts(parts: list[Any]) -> list[str]:
    texts = [part.get("text") for part in parts if isinstance(part, dict)]
    return [text for text in texts if isinstance(text, str)]


def _bounded(item: dict[str, Any]) -> Item:
    """The item; its plain values only where it nests too deeply to be handed on."""
    try:
        check_depth(item, "item")
    except RowFault:
        return {key: value for key, value in item.items() if not isinstance(value, dict | list)}
    return item
