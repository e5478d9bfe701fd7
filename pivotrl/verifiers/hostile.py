"""Attempts of a model that means harm, for `tools/fuzz_verifiers.py` and the tests: an expert's plain action of some
domain, and an answer that starts from it, so that it gets past the first checks, and goes wrong in one of many ways.

Everything follows from the seed and the index, so that a failure is reproduced by its number.
"""

import json
from collections.abc import Callable
from random import Random
from typing import Any

from pivotrl.trajectories.records import Action
from pivotrl.verifiers.attempt import Attempt, Item
from pivotrl.verifiers.hostile_cases import (
    DOMAINS,
    MESSAGES,
    TEXT_OF,
    expert_action,
    history,
    items_of,
    metadata_for,
    tools_for,
)
from pivotrl.verifiers.hostile_text import hostile_text

HUGE = 10_000_000
"""Characters of a huge string."""

_SUITED = {
    "swe_pivot": ("edit", "shell"),
    "swe": ("edit", "shell"),
    "code_edit": ("edit",),
    "terminal": ("terminal",),
    "terminal_functional": ("terminal", "shell"),
    "shell": ("shell",),
    "search": ("search",),
    "search_query": ("search",),
    "sql": ("sql",),
    "number": ("number",),
    "json": ("json",),
    "text": ("message",),
    "judge": ("message", "call"),
}


def attempts_for(verifier: str, seed: int, start: int, count: int, huge: float = 0.0005) -> list[Attempt]:
    """Attempts number `start` and on for a verifier of the table: nine in ten of the domains that it is for.

    `huge` is the share of answers that hold a string of 10 MB.
    """
    return [
        hostile_attempt(Random(f"{seed} {verifier} {index}"), verifier, huge) for index in range(start, start + count)
    ]


def hostile_attempt(rng: Random, verifier: str = "", huge: float = 0.0) -> Attempt:
    """One attempt. The expert's action is sound; the answer, the raw text and the tools' schemas are not."""
    suited = _SUITED.get(verifier, DOMAINS)
    domain = rng.choice(suited if rng.random() < 0.9 else DOMAINS)
    expert = expert_action(rng, domain)
    answer = _terminus if domain == "terminal" and rng.random() < 0.5 else rng.choice(_ANSWERS)
    items = answer(rng, expert, domain)
    if rng.random() < huge:
        items = [_with_content(rng, items_of(expert)[0], _huge(rng))]
    text = _raw(rng, items) if rng.random() < 0.4 else None
    return Attempt(expert, items, text, tools_for(rng, expert), history(rng, domain), metadata_for(rng, domain))


def _value(rng: Random, domain: str, depth: int = 0) -> Any:
    """A value that JSON can hold, of any type."""
    roll = rng.random()
    if roll < 0.6 or depth > 3:
        return hostile_text(rng, TEXT_OF[domain] if rng.random() < 0.5 else None)
    if roll < 0.8:
        return rng.choice(
            [
                None,
                True,
                False,
                0,
                -0.0,
                float("nan"),
                float("inf"),
                10**400,
                -(2**63),
                1e308,
                5e-324,
                [],
                {},
                "",
                [[]],
                {"": None},
            ]
        )
    if roll < 0.9:
        return [_value(rng, domain, depth + 1) for _ in range(rng.randrange(4))]
    return {hostile_text(rng, None, 30): _value(rng, domain, depth + 1) for _ in range(rng.randrange(4))}


def _with_content(rng: Random, item: Item, content: Any) -> Item:
    """The item with one of its values, or the text of its message, replaced."""
    if item.get("type") != "function_call":
        return {**item, "content": content}
    arguments = json.loads(item["arguments"])
    key = rng.choice(list(arguments))
    return {**item, "arguments": json.dumps({**arguments, key: content}, ensure_ascii=rng.random() < 0.5)}


def _one_value(rng: Random, expert: Action, domain: str) -> list[Item]:
    items = items_of(expert)
    place = rng.randrange(len(items))
    content = _value(rng, domain)
    if items[place].get("type") == "message" and rng.random() < 0.8:
        content = hostile_text(rng, TEXT_OF[domain])
    items[place] = _with_content(rng, items[place], content)
    return items


def _spliced(rng: Random, expert: Action, domain: str) -> list[Item]:
    """The right content with something hostile put into it."""
    items = items_of(expert)
    place = rng.randrange(len(items))
    item = items[place]
    poison = hostile_text(rng, TEXT_OF[domain] if rng.random() < 0.7 else None)

    def poisoned(text: str) -> str:
        cut = rng.randrange(len(text) + 1)
        return text[:cut] + poison + text[cut + rng.randrange(3) :]

    if item["type"] == "message":
        items[place] = {**item, "content": poisoned(item["content"])}
    elif rng.random() < 0.3:
        items[place] = {**item, "arguments": poisoned(item["arguments"])}
    else:
        arguments = json.loads(item["arguments"])
        strings = [key for key, value in arguments.items() if isinstance(value, str)]
        if strings:
            key = rng.choice(strings)
            items[place] = {**item, "arguments": json.dumps({**arguments, key: poisoned(arguments[key])})}
    return items


def _terminus(rng: Random, expert: Action, domain: str) -> list[Item]:
    answer = json.loads(MESSAGES["terminal"][0])
    if rng.random() < 0.5:
        answer["commands"] = [
            {"keystrokes": hostile_text(rng, "shell"), "duration": 0.1} for _ in range(rng.choice((1, 1, 2, 50)))
        ]
    else:
        answer[rng.choice([*answer, "extra"])] = _value(rng, domain)
    text = json.dumps(answer)
    return [
        {
            "type": "message",
            "content": rng.choice(["", "<think>x</think>", "</think></think>", "```json\n"])
            + text
            + rng.choice(["", "", "}", "```"]),
        }
    ]


def _raw_arguments(rng: Random, expert: Action, domain: str) -> list[Item]:
    items = items_of(expert)
    place = rng.randrange(len(items))
    key = "content" if items[place].get("type") == "message" else "arguments"
    items[place] = {**items[place], key: hostile_text(rng, rng.choice(["json", "json", None, TEXT_OF[domain]]))}
    return items


def _wrong_types(rng: Random, expert: Action, domain: str) -> list[Any]:
    items: list[Any] = items_of(expert)
    for _ in range(rng.randrange(1, 4)):
        place = rng.randrange(len(items))
        if not isinstance(items[place], dict):
            continue
        key = rng.choice(["type", "name", "arguments", "content", "role", "id", "status"])
        if rng.random() < 0.3:
            items[place].pop(key, None)
        elif rng.random() < 0.1:
            items[place] = _value(rng, domain)
        else:
            items[place][key] = _value(rng, domain)
    return items


def _crowd(rng: Random, expert: Action, domain: str) -> list[Item]:
    items = items_of(expert)
    near = _one_value(rng, expert, domain)
    crowd = (items + near) * rng.choice((2, 5, 70, 500))
    if len(crowd) * sum(len(str(item)) for item in near) > 2_000_000:
        crowd = crowd[:10]
    rng.shuffle(crowd)
    return crowd


def _other_kind(rng: Random, expert: Action, domain: str) -> list[Item]:
    return _one_value(rng, expert_action(rng, rng.choice(DOMAINS)), domain)


def _same(rng: Random, expert: Action, domain: str) -> list[Item]:
    return items_of(expert)


def _nothing(rng: Random, expert: Action, domain: str) -> list[Any]:
    return rng.choice(
        [[], [None], [5, "x", []], [{"type": "reasoning", "content": "x"}], [{}], [{"type": "message", "content": ""}]]
    )


_ANSWERS: list[Callable[[Random, Action, str], list[Any]]] = [
    _one_value,
    _one_value,
    _one_value,
    _spliced,
    _spliced,
    _spliced,
    _terminus,
    _raw_arguments,
    _raw_arguments,
    _wrong_types,
    _crowd,
    _other_kind,
    _same,
    _nothing,
]


def _huge(rng: Random) -> str:
    piece = rng.choice(["a", "word ", "[", "(", "$(", "a;", "\n", "\u00e9", "1", "a b\n", "'", "<tool_call>"])
    return (piece * (HUGE // len(piece) + 1))[:HUGE]


def _raw(rng: Random, items: list[Any]) -> str:
    """A completion that could have held the items, its markup maybe broken."""
    parts = [rng.choice(["", "<think>so</think>\n", "<think>", "</think>", "<think></think></think>"])]
    for item in items[:20]:
        arguments = item.get("arguments") if isinstance(item, dict) else None
        if isinstance(arguments, str):
            parts.append(
                rng.choice(["<tool_call>\n", "<tool_call>", ""])
                + '{"name": "f", "arguments": '
                + arguments
                + "}"
                + rng.choice(["\n</tool_call>", "</tool_call>", "", " so "])
            )
        elif isinstance(item, dict):
            parts.append(str(item.get("content")))
    if rng.random() < 0.2:
        parts.insert(rng.randrange(len(parts) + 1), hostile_text(rng, "markup", 2000))
    return "\n".join(parts)
