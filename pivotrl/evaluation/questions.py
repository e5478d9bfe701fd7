"""Questions with one right answer, from a JSON Lines file, read strictly: a figure must not rest on a typing error."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pivotrl.trajectories.faults import excerpt
from pivotrl.trajectories.store import dumps, scan_jsonl

_ROLES = ("system", "user", "assistant")
_FORM = 'write {"family": "add", "messages": [{"role": "user", "content": "Add 2 and 3"}], "answer": "5"}'


@dataclass(frozen=True, slots=True)
class Question:
    family: str
    number: int
    """0-based, within its family."""
    messages: list[dict[str, Any]]
    answer: str

    @property
    def id(self) -> str:
        return f"{self.family}/{self.number}"


def read_questions(path: str | Path) -> list[Question]:
    """Every question of a file, in order.

    Raises:
        ValueError: the file cannot be read or is empty, or a line is no question or asks what an earlier one of its
            family asks; it names the line.
    """
    questions: list[Question] = []
    seen: dict[tuple[str, str], int] = {}
    counts: dict[str, int] = {}
    for line, row, fault in scan_jsonl(path):
        problem = f"not JSON ({fault})" if fault else _problem(row)
        if problem:
            raise ValueError(f"{path}:{line}: {problem}; {_FORM}")
        key = row["family"], dumps(row["messages"])
        if key in seen:
            raise ValueError(
                f"{path}:{line}: asks what line {seen[key]} asks, in the same family; remove one of them: a question "
                "that counts twice narrows the interval"
            )
        seen[key] = line
        number = counts.get(row["family"], 0)
        counts[row["family"]] = number + 1
        questions.append(Question(row["family"], number, row["messages"], row["answer"]))
    if not questions:
        raise ValueError(f"{path}: no questions; {_FORM}, one a line, or set evaluation.families to null")
    return questions


def _problem(row: Any) -> str:
    """What is wrong with a line; empty where nothing is."""
    if not isinstance(row, dict):
        return f"found {excerpt(row)}"
    if unknown := sorted(row.keys() - {"family", "messages", "answer"}):
        return f"unknown key {unknown[0]!r}"
    for key, kind in (("family", str), ("messages", list), ("answer", str)):
        if not isinstance(row.get(key), kind) or not row[key]:
            return f"{key} is {excerpt(row.get(key))}"
    for message in row["messages"]:
        if not (
            isinstance(message, dict) and message.get("role") in _ROLES and isinstance(message.get("content"), str)
        ):
            return f"messages hold {excerpt(message)}"
    if row["messages"][-1]["role"] == "assistant":
        return "the last message is the assistant's own"
    return ""
