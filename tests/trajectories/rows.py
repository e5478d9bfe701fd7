"""Small rows of every format, good and bad, that several tests use."""

import json
from pathlib import Path

TOOLS = [{"type": "function", "function": {"name": "get_order", "parameters": {"type": "object", "properties": {}}}}]


def call(name: str = "get_order", arguments: str = '{"order_id": "A-1"}', identity: str = "c1") -> dict:
    return {"id": identity, "type": "function", "function": {"name": name, "arguments": arguments}}


def chat_row(identity: str = "t1", **more: object) -> dict:
    """Two assistant turns: a call and a message."""
    return {
        "id": identity,
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "Where is A-1?"},
            {"role": "assistant", "content": None, "tool_calls": [call()]},
            {"role": "tool", "tool_call_id": "c1", "content": "sent"},
            {"role": "assistant", "content": "It is on its way."},
        ],
        "tools": TOOLS,
        **more,
    }


def write_rows(path: Path, rows: list) -> str:
    """JSON Lines; a str is written as it is."""
    lines = [row if isinstance(row, str) else json.dumps(row) for row in rows]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return str(path)
