"""The sound half of a hostile attempt: an expert's plain action in some domain, and the history before it; and the
tools' schemas, which come from a data file and may be odd."""

import json
from random import Random
from typing import Any

from pivotrl.trajectories.records import Action
from pivotrl.verifiers.attempt import Item
from pivotrl.verifiers.hostile_text import hostile_text

# fmt: off
CALLS: dict[str, list[tuple[str, dict[str, Any]]]] = {
    "call": [
        ("get_order", {"order_id": "W-12", "fields": ["status", "total"], "limit": 5}),
        ("update", {"note": "please cancel the order today", "amount": 12.5, "express": True, "extra": None}),
        (
            "book",
            {
                "date": "2024-05-01", "email": "Ada@Example.com", "site": "https://a.example/x?b=1&a=2",
                "seats": {"n": 2, "rows": [1, 2]},
            },
        ),
    ],
    "shell": [
        ("execute_bash", {"command": command})
        for command in (
            "cd /repo && grep -rn 'total' src | head -n 5", "ls -la src",
            "python -m pytest tests/test_a.py -x -q > out.txt 2>&1", "cat <<'EOF' > a.py\nprint(1)\nEOF",
            "A=1 git diff --stat HEAD~1 -- src/a.py", "find . -name '*.py' -exec wc -l {} +",
        )
    ],
    "edit": [
        (
            "str_replace_editor",
            {
                "command": "str_replace", "path": "/repo/src/a.py", "old_str": "    return a\n",
                "new_str": "    if a is None:\n        raise ValueError(a)\n    return a\n",
            },
        ),
        ("str_replace_editor", {"command": "view", "path": "/repo/src/a.py", "view_range": [1, 80]}),
        ("str_replace_editor", {"command": "insert", "path": "/repo/src/a.py", "insert_line": 3, "new_str": "x = 1"}),
        ("create_file", {"path": "/repo/src/b.js", "file_text": "function f(a) {\n  return a + 1; // one\n}\n"}),
        ("write_file", {"file_path": "/repo/src/c.py", "content": "def f(a):\n    '''Doc.'''\n    return a + 1\n"}),
        (
            "apply_patch",
            {"patch": "--- a/src/a.py\n+++ b/src/a.py\n@@ -1,2 +1,2 @@\n def f(a):\n-    return a\n+    return 1\n"},
        ),
    ],
    "search": [
        ("search", {"query": query, "top_k": 5})
        for query in ('"turn level" RL -site:example.com', "who wrote Middlemarch", "site:arxiv.org pivot OR turn")
    ]
    + [("open", {"url": "https://www.example.com/a/../b?x=1#y"})],
    "sql": [
        ("run_sql", {"sql": sql})
        for sql in (
            "SELECT a, COUNT(*) FROM t WHERE b = 'x' AND c > 3 GROUP BY a ORDER BY a DESC LIMIT 5",
            "WITH q AS (SELECT * FROM t) SELECT q.a FROM q JOIN u ON q.id = u.id",
            "UPDATE t SET a = 1 WHERE id IN (1, 2)",
        )
    ],
    "number": [("answer", {"value": value}) for value in ("1,234.50", "3/4", "12 %", 7, 0.5)],
    "json": [("submit", {"json": value}) for value in ('{"a": [1, 2.0, "x"], "b": null}', [1, {"a": 2}], "[]")],
}
MESSAGES = {
    "message": [
        "Your order W-12 is cancelled; we refund $12.50 by 5 May.", "I cannot do that without the booking reference.",
    ],
    "shell": ["```bash\nls -la src\n```", "git status"],
    "edit": ["```python\ndef f(a):\n    return a + 1\n```", "--- a/f.py\n+++ b/f.py\n@@ -1 +1 @@\n-a\n+b\n"],
    "search": ['"exact phrase" term', "https://example.com/a?b=1"], "sql": ["SELECT a FROM t WHERE b = 1"],
    "number": ["The answer is 1,234.5", "42"], "json": ['{"a": [1, 2, {"b": null}], "c": "x"}'],
    "terminal": [
        json.dumps(
            {
                "analysis": "a", "plan": "p",
                "commands": [{"keystrokes": "grep -rn 'TODO' src | head\n", "duration": 0.1}], "task_complete": False,
            }
        ),
        json.dumps(
            {
                "analysis": "a", "plan": "p",
                "commands": [{"keystrokes": "ls -la\n"}, {"keystrokes": "make -j 2\n", "duration": 60}],
                "task_complete": True,
            }
        ),
    ],
}
TEXT_OF = {
    "shell": "shell", "edit": "python", "search": "url", "sql": "sql", "number": "number", "json": "json",
    "message": "prose", "call": "regex", "terminal": "shell",
}
"""The kind of hostile text that suits a domain best."""
DOMAINS = list(TEXT_OF)
_SCHEMAS: list[Any] = [
    {}, None, True, {"type": "object"}, {"$ref": "#"},
    {"type": "object", "properties": {"a": {"$ref": "#/properties/a"}}}, {"allOf": [{"$ref": "#"}] * 3},
    {"properties": []}, {"properties": {"a": None}}, {"type": ["object", 5]}, {"enum": {}}, {"required": "a"},
    {"anyOf": "x"}, {"$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}, "$ref": "#/$defs/a"},
    {"properties": {"a": {"pattern": "(a+)+$", "type": "string"}}},
    {"type": "object", "additionalProperties": {"$ref": "#"}},
]


# fmt: on
def expert_action(rng: Random, domain: str) -> Action:
    if domain in MESSAGES and (domain not in CALLS or rng.random() < 0.2):
        return {"type": "message", "content": rng.choice(MESSAGES[domain])}
    calls = [_call(*rng.choice(CALLS[domain])) for _ in range(rng.choice((1, 1, 1, 1, 2, 3)))]
    return calls[0] if len(calls) == 1 else {"type": "function_call_batch", "calls": calls}


def _call(name: str, arguments: dict[str, Any]) -> Action:
    return {"type": "function_call", "name": name, "arguments": json.dumps(arguments)}


def items_of(expert: Action) -> list[Item]:
    return [dict(item) for item in (expert["calls"] if expert["type"] == "function_call_batch" else [expert])]


def tools_for(rng: Random, expert: Action) -> list[Any]:
    if rng.random() < 0.4:
        return []
    tools = []
    for call in items_of(expert):
        if call["type"] != "function_call":
            continue
        arguments = json.loads(call["arguments"])
        kinds = {str: "string", int: "integer", float: "number", bool: "boolean", list: "array", dict: "object"}
        schema: Any = {
            "type": "object",
            "properties": {key: {"type": kinds.get(type(value), "null")} for key, value in arguments.items()},
            "required": list(arguments)[:1],
        }
        if rng.random() < 0.3:
            schema = rng.choice(_SCHEMAS)
        elif rng.random() < 0.5:
            schema["properties"][rng.choice(list(arguments))] = rng.choice(
                [
                    *_SCHEMAS,
                    {"type": "string", "format": "date"},
                    {"type": "string", "format": "uri"},
                    {"type": "array", "uniqueItems": True},
                    {"enum": [1, "x", None, [1]]},
                    {"default": float("nan")},
                    {"type": "number", "const": 10**400},
                ]
            )
        tools.append({"type": "function", "function": {"name": call["name"], "parameters": schema}})
    return tools


def history(rng: Random, domain: str) -> list[dict[str, Any]]:
    if rng.random() < 0.5:
        return []
    shown = rng.choice(
        [
            "def f(a):\n    return a\n",
            "     1\tdef f(a):\n     2\t    return a\n",
            hostile_text(rng, "python", 3000),
            hostile_text(rng, None, 3000),
        ]
    )
    return [
        {"role": "system", "content": "You fix repositories."},
        {"role": "user", "content": "Go on."},
        {
            "role": "assistant",
            "content": "",
            "tool_calls": [
                {
                    "id": "1",
                    "type": "function",
                    "function": {
                        "name": "str_replace_editor",
                        "arguments": '{"command": "view", "path": "/repo/src/a.py"}',
                    },
                }
            ],
        },
        {
            "role": "tool",
            "tool_call_id": "1",
            "content": "Here's the result of running `cat -n` on /repo/src/a.py:\n" + shown,
        },
    ]


def metadata_for(rng: Random, domain: str) -> dict[str, Any]:
    if domain == "terminal":
        return {"harness": rng.choice(["terminus_2"] * 8 + ["terminus_1", 5])}
    return rng.choice([{}, {}, {"harness": "terminus_2"}, {"file": None}])
