"""What is decided without a judge, and what a judge is shown of the rest."""

from dataclasses import dataclass
from typing import Any

from pivotrl.trajectories.faults import excerpt
from pivotrl.trajectories.records import Message
from pivotrl.verifiers.action import expert_calls, other_kind, split_items
from pivotrl.verifiers.arguments import MALFORMED, parse_actual, parse_expected
from pivotrl.verifiers.attempt import Attempt, Item
from pivotrl.verifiers.base import Verdict
from pivotrl.verifiers.judge.question import shown
from pivotrl.verifiers.robust.wellformed import Thinking, format_fault, is_blank, spoken

MOST_CALLS = 64
"""Calls of one completion that a judge is shown."""
LONGEST_ACTION = 20_000
"""Characters of one action as a judge is shown it; a longer one is judged as too long."""
LONGEST_CONTEXT = 4000
"""Characters of each message of the conversation that a judge is shown: its beginning and its end."""


@dataclass(frozen=True, slots=True)
class Case:
    """Two actions of one kind that are not equal, as JSON text of `question.shown`."""

    context: str
    expected: str
    actual: str


def settle(attempt: Attempt, thinking: Thinking) -> Verdict | Case:
    """The verdict where no judge is needed, else what it is to compare.

    Reasons: equal, format, no_action, empty_message, call_where_message_expected, message_where_call_expected,
    number_of_calls, other_tool, arguments_not_json, other_type, too_long.
    """
    if (fault := format_fault(attempt, thinking)) is not None:
        return Verdict(0.0, *fault)
    calls, message = split_items(attempt.items)
    wanted = expert_calls(attempt.expert)
    if (verdict := other_kind(wanted, calls, message)) is not None:
        return verdict
    if not wanted:
        text = spoken(message or "")
        if is_blank(text):
            return Verdict(0.0, "empty_message")
        return _compare({"message": attempt.expert["content"].strip()}, {"message": text.strip()}, attempt)
    if len(calls) > MOST_CALLS:
        return Verdict(0.0, "number_of_calls", f"{len(calls)} calls, expected {len(wanted)}")
    known = _names(attempt.tools) | {call["name"] for call in wanted}
    found = []
    for call in calls:
        name, arguments = call.get("name"), parse_actual(call)
        if not isinstance(name, str) or name not in known:
            return Verdict(0.0, "other_tool", f"there is no tool {excerpt(name)}")
        if arguments is MALFORMED:
            return Verdict(0.0, "arguments_not_json", excerpt(call.get("arguments")))
        if not isinstance(arguments, dict):
            return Verdict(0.0, "other_type", f"the arguments are {excerpt(arguments)}, no object")
        found.append({"tool": name, "arguments": arguments})
    expected = [{"tool": call["name"], "arguments": parse_expected(call["arguments"])} for call in wanted]
    return _compare({"calls": expected}, {"calls": found}, attempt)


def _compare(expected: Any, actual: Any, attempt: Attempt) -> Verdict | Case:
    try:
        wanted, found = shown(expected), shown(actual)
    except (RecursionError, ValueError):  # ValueError: an integer of more digits than Python prints
        return Verdict(0.0, "too_long", "nested too deeply to be shown to a judge")
    if wanted == found:
        return Verdict(1.0, "equal")
    longest = max(len(wanted), len(found))
    if longest > LONGEST_ACTION:
        return Verdict(0.0, "too_long", f"an action of {longest} characters; a judge is shown {LONGEST_ACTION}")
    return Case(shown(_end_of(attempt.messages)), wanted, found)


def _names(tools: list[Any]) -> set[str]:
    functions = [tool.get("function") for tool in tools if isinstance(tool, dict)]
    return {function["name"] for function in functions if isinstance(function, dict) and _is_name(function.get("name"))}


def _is_name(value: Any) -> bool:
    return isinstance(value, str)


def _end_of(messages: list[Message]) -> list[Item]:
    """The last message of the user, and the last result of a tool behind it."""
    found: dict[str, str] = {}
    for message in reversed(messages):
        role = message.get("role") if isinstance(message, dict) else None
        if role in ("user", "tool") and role not in found:
            found[role] = _shortened(message.get("content"))
        if role == "user":
            break
    return [{"role": role, "content": found[role]} for role in ("user", "tool") if role in found]


def _shortened(content: Any) -> str:
    if isinstance(content, list):
        content = "\n".join(part["text"] for part in content if isinstance(part, dict) and _is_name(part.get("text")))
    text = content if isinstance(content, str) else ""
    half = LONGEST_CONTEXT // 2
    return text if len(text) <= LONGEST_CONTEXT else f"{text[:half]} [...] {text[-half:]}"
