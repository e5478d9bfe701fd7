"""Realistic pairs of an expert's action and a model's, for `tools/bench_verifiers.py` where no labelled rows are at
hand: in each domain some equal, some equivalent, some near, some far."""

import json
from typing import Any

from pivotrl.verifiers.attempt import Attempt

_SOURCE = '''\
"""Orders and what they cost."""

from dataclasses import dataclass


@dataclass
class Line:
    name: str
    price: float
    count: int = 1


def total(lines, discount=None):
    """The price of all lines, less the discount."""
    result = 0.0
    for line in lines:
        result += line.price * line.count
    if discount is not None:
        result -= result * discount
    return result


def find(lines, name):
    for line in lines:
        if line.name == name:
            return line
    return None
'''
_VIEWED = "Here's the result of running `cat -n` on /repo/shop/orders.py:\n" + "".join(
    f"{number:6}\t{line}\n" for number, line in enumerate(_SOURCE.splitlines(), 1)
)
_OLD = "    result = 0.0\n    for line in lines:\n        result += line.price * line.count\n"
_NEW = "    result = sum(line.price * line.count for line in lines)\n"
_NEW_SPACED = "    # One pass.\n    result = sum(\n        line.price * line.count for line in lines\n    )\n"
_PATCH = """--- a/shop/orders.py
+++ b/shop/orders.py
@@ -17,7 +17,5 @@
     \"\"\"The price of all lines, less the discount.\"\"\"
-    result = 0.0
-    for line in lines:
-        result += line.price * line.count
+    result = sum(line.price * line.count for line in lines)
     if discount is not None:
         result -= result * discount
"""
_SCRIPT = "import csv\n\nwith open('a.csv') as file:\n    rows = list(csv.DictReader(file))\nprint(len(rows))\n"

# fmt: off
_SHELL = [
    ("cd /repo && grep -rn 'def total' shop | head -n 20", 'cd /repo && grep -n -r "def total" ./shop | head -20'),
    ("python -m pytest tests/test_orders.py -x -q", "cd /repo && python -m pytest -q -x tests/test_orders.py"),
    ("ls -la /repo/shop", "ls -al /repo/shop/"), ("find . -name '*.py' -type f", 'find . -type f -name "*.py"'),
    (f"cat > run.py <<'EOF'\n{_SCRIPT}EOF", f"cat <<EOF > run.py\n{_SCRIPT}EOF"),
    ("git diff --stat HEAD~1 -- shop/orders.py", "git diff HEAD~1 --stat -- shop/orders.py"),
    ("sed -n '10,40p' shop/orders.py", "sed -n 10,40p shop/orders.py"), ("wc -l a.txt > n.txt", "wc -l a.txt >> n.txt"),
    (
        "PYTHONPATH=. python run.py --input a.csv 2>&1 | tee log.txt",
        "PYTHONPATH=. python run.py --input=a.csv > log.txt",
    ),
    ('for f in *.log; do gzip "$f"; done', "for f in *.log; do gzip $f; done"), ("pip install -e .", "pip install ."),
    ("tar -xzf data.tar.gz -C /tmp && rm data.tar.gz", "tar xzf data.tar.gz -C /tmp; rm data.tar.gz"),
    ("grep -c ERROR app.log || echo none", "grep -c ERROR app.log && echo none"), ("make -j 4 test", "make test -j4"),
]
_EDITS = [
    (
        {"command": "str_replace", "path": "/repo/shop/orders.py", "old_str": _OLD, "new_str": _NEW},
        {"command": "str_replace", "path": "/repo/shop/orders.py", "old_str": _OLD, "new_str": _NEW_SPACED},
    ),
    (
        {"command": "str_replace", "path": "/repo/shop/orders.py", "old_str": _OLD, "new_str": _NEW},
        {"command": "str_replace", "path": "/repo/shop/orders.py", "old_str": _OLD.rstrip(), "new_str": _NEW.rstrip()},
    ),
    (
        {"command": "str_replace", "path": "/repo/shop/orders.py", "old_str": _OLD, "new_str": _NEW},
        {
            "command": "str_replace", "path": "/repo/shop/orders.py", "old_str": _OLD,
            "new_str": _OLD.replace("+=", "-="),
        },
    ),
    (
        {"command": "create", "path": "/repo/run.py", "file_text": _SCRIPT},
        {"command": "create", "path": "/repo/run.py", "file_text": "# Counts rows.\n" + _SCRIPT.replace("'", '"')},
    ),
    (
        {"command": "create", "path": "/repo/shop/orders.py", "file_text": _SOURCE},
        {"command": "create", "path": "/repo/shop/orders.py", "file_text": _SOURCE.replace("result", "amount")},
    ),
    (
        {"command": "create", "path": "/repo/web/a.js", "file_text": "function f(a) {\n  return a + 1; // one\n}\n"},
        {"command": "create", "path": "/repo/web/a.js", "file_text": "function f(a) { return a + 1; }\n"},
    ),
    (
        {"command": "view", "path": "/repo/shop/orders.py", "view_range": [1, 40]},
        {"command": "view", "path": "/repo/shop/orders.py", "view_range": [1, 60]},
    ),
    (
        {"command": "insert", "path": "/repo/shop/orders.py", "insert_line": 3, "new_str": "import math\n"},
        {"command": "insert", "path": "/repo/shop/orders.py", "insert_line": 4, "new_str": "import math\n"},
    ),
]
_QUERIES = [
    ('"turn level" reinforcement learning site:arxiv.org', 'site:arxiv.org "turn level" Reinforcement  Learning'),
    ("who wrote the novel Middlemarch", "novel Middlemarch who wrote the"),
    ("python csv dictreader example", "csv DictReader python"),
    ("weather paris tomorrow -rain", "weather paris tomorrow"),
    ("https://www.example.com/a/../b?x=1&y=2#top", "https://example.com/b?y=2&x=1"),
    ("population of iceland in 1990", "population of iceland in 1991"),
    ("(cats OR dogs) filetype:pdf", "(dogs OR cats) filetype:pdf"),
]
_SQL = [
    (
        "SELECT a, COUNT(*) FROM t WHERE b = 'x' AND c > 3 GROUP BY a ORDER BY a DESC LIMIT 5",
        "select a, count(*) from t where c > 3 and b = 'x' group by a order by a desc limit 5",
    ),
    ("SELECT * FROM users WHERE id IN (1, 2, 3)", "SELECT * FROM users WHERE id IN (1, 2, 4)"),
    (
        "SELECT u.name, o.total FROM users u JOIN orders o ON u.id = o.user_id WHERE o.total >= 10",
        "SELECT x.name, y.total FROM users AS x INNER JOIN orders AS y ON x.id = y.user_id WHERE y.total >= 10",
    ),
    ("UPDATE orders SET status = 'done' WHERE id = 7", "UPDATE orders SET status = 'open' WHERE id = 7"),
    ("SELECT name FROM t WHERE NOT (a = 1 OR b = 2)", "SELECT name FROM t WHERE a <> 1 AND b <> 2"),
]
_NUMBERS = [
    ("1,234.50", "1234.5"), ("3/4", "0.75"), ("12 %", "0.12"), ("The answer is 42.", "So it is 42"), ("1e3", "1001"),
    ("-7", "7"),
]
_TEXTS = [
    (
        "Your order W-12 is cancelled; we refund $12.50 by 5 May.",
        "Order W-12 has been cancelled, and $12.50 is refunded by 5 May.",
    ),
    ("I cannot book that flight without your passport number.", "I can book that flight without your passport number."),
    ("The total is 318 dollars for two passengers.", "For two passengers the total is 381 dollars."),
    ("Done.", "It is done."),
    (
        "Please tell me which of the two reservations you would like to change, and to which date.",
        "Which of your two reservations should I change, and what is the new date?",
    ),
]
_JSON = [
    ('{"a": [1, 2.0, "x"], "b": null}', '{"b": null, "a": [1, 2, "x"]}'),
    ('[{"id": 1, "ok": true}]', '[{"id": 1, "ok": 1}]'),
    (
        '{"name": "Ada", "tags": ["x", "y"], "at": "2024-05-01"}',
        '{"name": "Ada", "tags": ["y", "x"], "at": "2024-05-01"}',
    ),
]
_CALLS = [
    (
        "get_order", {"order_id": "W-12", "fields": ["status", "total"]},
        {"fields": ["status", "total"], "order_id": "W-12"},
    ),
    (
        "cancel", {"order_id": "W-12", "reason": "no longer needed by the customer"},
        {"order_id": "W-12", "reason": "customer no longer needs it"},
    ),
    (
        "search_direct_flight", {"origin": "JFK", "destination": "ATL", "date": "2024-05-22"},
        {"origin": "JFK", "destination": "ATL", "date": "2024-05-23"},
    ),
    (
        "book", {"passengers": [{"name": "Mia", "dob": "1990-04-05"}], "bags": 3, "insurance": False, "price": 155.0},
        {
            "passengers": [{"name": "Mia", "dob": "1990-04-05"}], "bags": 3, "insurance": False, "price": 155.0,
            "notes": None,
        },
    ),
]
_KEYSTROKES = [
    ("grep -rn 'TODO' src | head\n", "grep -rn TODO src | head -10\n"),
    ("wc -l < a.txt > n.txt\n", "wc -l < a.txt > n.txt\n"), ("python3 solve.py --input data.csv\n", "ls -la\n"),
    ("make -j 2 && ./run --all\n", "make -j2 && ./run --all\n"),
]


# fmt: on
def _call(name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    return {"type": "function_call", "name": name, "arguments": json.dumps(arguments)}


def _pairs(name: str, key: str, pairs: list[tuple[Any, Any]]) -> list[Attempt]:
    return [Attempt(_call(name, {key: wanted}), [_call(name, {key: found})]) for wanted, found in pairs]


def _messages(pairs: list[tuple[str, str]], **metadata: Any) -> list[Attempt]:
    forms = [tuple({"type": "message", "content": text} for text in pair) for pair in pairs]
    return [Attempt(wanted, [found], metadata=metadata) for wanted, found in forms]


def _calls() -> list[Attempt]:
    kinds = {str: "string", int: "integer", float: "number", bool: "boolean", list: "array"}
    found = []
    for name, wanted, given in _CALLS:
        properties = {key: {"type": kinds[type(value)]} for key, value in wanted.items()}
        schema = {"type": "object", "properties": properties, "required": list(wanted)}
        tools = [{"type": "function", "function": {"name": name, "parameters": schema}}]
        found.append(Attempt(_call(name, wanted), [_call(name, given)], tools=tools))
    batch = [_call(name, wanted) for name, wanted, _ in _CALLS]
    return [*found, Attempt({"type": "function_call_batch", "calls": batch}, batch[::-1])]


def _edits() -> list[Attempt]:
    view = {"name": "str_replace_editor", "arguments": '{"command": "view", "path": "/repo/shop/orders.py"}'}
    history = [
        {"role": "user", "content": "Make total() shorter."},
        {"role": "assistant", "content": "", "tool_calls": [{"id": "1", "type": "function", "function": view}]},
        {"role": "tool", "tool_call_id": "1", "content": _VIEWED},
    ]
    calls = [tuple(_call("str_replace_editor", side) for side in pair) for pair in _EDITS]
    patches = tuple(_call("apply_patch", {"patch": text}) for text in (_PATCH, _PATCH.replace("     if", "     if")))
    return [Attempt(wanted, [found], messages=history) for wanted, found in (*calls, patches)]


def _terminal() -> list[Attempt]:
    def answer(keys: str) -> str:
        return json.dumps(
            {"analysis": "a", "plan": "p", "commands": [{"keystrokes": keys, "duration": 0.1}], "task_complete": False}
        )

    return _messages([(answer(wanted), answer(found)) for wanted, found in _KEYSTROKES], harness="terminus_2")


def cases(verifier: str) -> list[Attempt]:
    """Attempts in the domain of a verifier of the table."""
    shell, queries = _pairs("execute_bash", "command", _SHELL), _pairs("search", "query", _QUERIES)
    kinds = {
        "search": queries,
        "search_query": queries,
        "swe_pivot": shell + _edits(),
        "swe": shell + _edits(),
        "code_edit": _edits(),
        "shell": shell,
        "terminal": _terminal(),
        "terminal_functional": _terminal(),
        "sql": _pairs("run_sql", "sql", _SQL),
        "number": _messages(_NUMBERS),
        "text": _messages(_TEXTS),
        "json": _messages(_JSON),
    }
    return kinds.get(verifier) or _calls() + _messages(_TEXTS)
