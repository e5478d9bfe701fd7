"""Tool schemas: brought to OpenAI's form, loaded from a file, or inferred from the calls that a file holds."""

from collections.abc import Iterable
from typing import Any

from pivotrl.trajectories.faults import RowFault, excerpt
from pivotrl.trajectories.records import Message, Tool
from pivotrl.trajectories.store import open_for_reading, parse_json
from pivotrl.trajectories.text import check_characters, check_depth

JSON_TYPES = {
    bool: "boolean",
    int: "integer",
    float: "number",
    str: "string",
    list: "array",
    dict: "object",
    type(None): "null",
}


def normalise_tools(tools: Any) -> list[Tool]:
    """Tools in OpenAI's nested form, from that form or from the flat one of the Responses API, as a list or as its JSON
    text; null fields are left out.

    Raises RowFault.
    """
    if isinstance(tools, str):
        if not tools.strip():
            return []
        try:
            tools = parse_json(tools)
        except ValueError as error:
            raise RowFault("bad_tools", f"tools is {excerpt(tools)} ({error})", "write a list of tools") from None
        check_depth(tools, "tools")
        check_characters(tools, "tools")
    if tools is None:
        return []
    if not isinstance(tools, list):
        raise RowFault("bad_tools", f"tools is {excerpt(tools)}", "write a list of tools")
    result = []
    for index, tool in enumerate(tools):
        function = tool.get("function", tool) if isinstance(tool, dict) else None
        if (
            not isinstance(function, dict)
            or not isinstance(function.get("name"), str)
            or tool.get("type", "function") != "function"
        ):
            raise RowFault(
                "bad_tools",
                f"tools[{index}] is {excerpt(tool)}",
                'write {"type": "function", "function": {"name", "description", "parameters"}}',
            )
        kept = {key: value for key, value in function.items() if value is not None and key != "type"}
        result.append({"type": "function", "function": kept})
    return result


def tools_if_called(messages: list[Message], tools: list[Tool]) -> list[Tool]:
    """`tools` for a conversation that calls any; none for one whose actions are in its text."""
    return tools if any("tool_calls" in message for message in messages) else []


def load_tools(path: str) -> list[Tool]:
    """The tools of a JSON file that holds a list of them. Raises ValueError with the path."""
    with open_for_reading(path) as file:
        try:
            tools = parse_json(file.read().decode("utf-8"))
            check_depth(tools, "the file")
            tools = normalise_tools(tools)
            check_characters(tools, "the file")
        except ValueError as error:
            raise ValueError(f"trajectories.tools: {path}: {error}") from None
    return tools


def infer_tools(conversations: Iterable[list[Message]]) -> list[Tool]:
    """The smallest schemas that admit every well-formed call of normalised conversations.

    A tool's properties are the argument names seen, with the JSON types seen (several: a list of types; arrays and
    objects recursively); `required` lists the arguments that every call gave. There are no descriptions: the calls do
    not tell. Tools are sorted by name, properties by first appearance.
    """
    seen: dict[str, dict[str, Any]] = {}
    for messages in conversations:
        for message in messages:
            for call in message.get("tool_calls", ()):
                try:
                    arguments = parse_json(call["function"]["arguments"])
                    check_depth(arguments, "arguments")
                except ValueError:
                    continue
                if isinstance(arguments, dict):
                    _merge(seen.setdefault(call["function"]["name"], {}), arguments)
    return [
        {"type": "function", "function": {"name": name, "parameters": _schema(seen[name])}} for name in sorted(seen)
    ]


def _merge(seen: dict[str, Any], value: Any) -> None:
    """Add one value to what was seen at one place: the set of types, the array's items, the object's keys and how
    often each came."""
    kind = JSON_TYPES[type(value)]
    seen.setdefault("types", set()).add(kind)
    if kind == "array":
        for item in value:
            _merge(seen.setdefault("items", {}), item)
    elif kind == "object":
        seen["objects"] = seen.get("objects", 0) + 1
        for key, item in value.items():
            child = seen.setdefault("keys", {}).setdefault(key, {"count": 0})
            child["count"] += 1
            _merge(child, item)


def _schema(seen: dict[str, Any]) -> dict[str, Any]:
    types = sorted(seen.get("types", ()))
    if "integer" in types and "number" in types:
        types.remove("integer")
    schema: dict[str, Any] = {"type": types[0] if len(types) == 1 else types} if types else {}
    if "items" in seen:
        schema["items"] = _schema(seen["items"])
    if "object" in types:
        keys = seen.get("keys", {})
        schema["properties"] = {key: _schema(child) for key, child in keys.items()}
        schema["required"] = [key for key, child in keys.items() if child["count"] == seen["objects"]]
    return schema
