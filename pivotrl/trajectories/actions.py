"""The expert's action at one turn, in NeMo-Gym's shapes, checked so that a verifier can rely on it."""

from typing import Any

from pivotrl.trajectories.faults import RowFault, excerpt
from pivotrl.trajectories.records import Action, Message
from pivotrl.trajectories.store import parse_json
from pivotrl.trajectories.text import check_arguments, check_depth, text


def action_of(message: Message) -> Action:
    """What a normalised assistant message does: its calls where it has any (text beside them is not judged), else its
    text.

    Raises RowFault for malformed arguments and for a message that does nothing.
    """
    calls = [
        {"type": "function_call", "name": call["function"]["name"], "arguments": call["function"]["arguments"]}
        for call in message.get("tool_calls", ())
    ]
    if not calls and not message["content"].strip():
        raise RowFault(
            "empty_assistant_turn",
            "neither text nor a tool call",
            "write what the assistant said or called, or leave the message out",
        )
    if not calls:
        return {"type": "message", "content": message["content"]}
    return check_action(calls[0] if len(calls) == 1 else {"type": "function_call_batch", "calls": calls})


def check_action(action: Any) -> Action:
    """An action from a file, with unknown keys left out. Raises RowFault."""
    kind = action.get("type") if isinstance(action, dict) else None
    if kind == "message":
        return {"type": "message", "content": text(action.get("content"), "content")}
    if kind == "function_call":
        return _check_call(action)
    if kind == "function_call_batch" and isinstance(action.get("calls"), list) and action["calls"]:
        return {"type": "function_call_batch", "calls": [_check_call(call) for call in action["calls"]]}
    raise RowFault(
        "bad_expected_action",
        f"the expert's action is {excerpt(action)}",
        "write type message, function_call, or function_call_batch with a list of calls",
    )


def _check_call(call: Any) -> Action:
    if not isinstance(call, dict) or not isinstance(call.get("name"), str) or not call["name"]:
        raise RowFault(
            "bad_expected_action", f"a call is {excerpt(call)}", 'write {"type": "function_call", "name", "arguments"}'
        )
    name, arguments = text(call["name"], "name"), check_arguments(call.get("arguments"))
    try:
        parsed = parse_json(arguments)
    except ValueError as error:
        raise RowFault(
            "malformed_arguments",
            f"the arguments of {excerpt(name)} are {excerpt(arguments)} ({error})",
            "write them as the JSON text of one object",
        ) from None
    if not isinstance(parsed, dict):
        raise RowFault(
            "malformed_arguments",
            f"the arguments of {excerpt(name)} are {excerpt(arguments)}, a {type(parsed).__name__}",
            "write them as the JSON text of one object",
        )
    check_depth(parsed, "arguments")
    return {"type": "function_call", "name": name, "arguments": arguments}


def action_kind(action: Action) -> str:
    """The key by which turns are counted: the tool's name, `(message)` or `(several calls)`."""
    if action["type"] == "function_call":
        return action["name"]
    return "(message)" if action["type"] == "message" else "(several calls)"


def calls_of(action: Action) -> list[Action]:
    """The action's calls; none for a message."""
    return (
        action["calls"]
        if action["type"] == "function_call_batch"
        else [action]
        if action["type"] == "function_call"
        else []
    )
