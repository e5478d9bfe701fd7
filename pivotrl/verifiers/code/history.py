"""What a file reads just before a turn, where the history shows it whole. What is uncertain is not known."""

import json
import re
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass, field
from posixpath import basename
from typing import Any

from pivotrl.trajectories.records import Message
from pivotrl.verifiers.base import Difference
from pivotrl.verifiers.code.edits import apply_edit
from pivotrl.verifiers.code.paths import may_be_same, same_path
from pivotrl.verifiers.code.reads import Read, read_in_shell, read_of
from pivotrl.verifiers.code.shapes import pick, read_edits
from pivotrl.verifiers.code.views import numbered_file, plain_file, was_made, window_file
from pivotrl.verifiers.tool_categories import category

MOST_MESSAGES = 600
"""Messages, from the last one back, that are looked at."""
MOST_CHARACTERS = 4_000_000
"""Characters of those messages."""
MOST_CALLS = 64
"""Calls of one message."""
KEPT = 16
"""Histories whose files are remembered: the samples of a turn share one."""
SHORTEST_CUT = 2000
"""Lines after which a reading tool may have stopped by itself."""

_HARMLESS = ("read", "search", "think", "finish", "planning")
COMMANDS = ("command", "cmd", "script", "code")

_ANY_FILE = re.compile(
    r"\bgit\s+(?:-\S+\s+(?:[/.~]\S*\s+)?){0,8}(?:checkout|restore|reset|stash|apply|am|merge|rebase|pull|revert|cherry-pick|clean|switch)\b|"
    r"\b(?:patch|black|isort|autopep8|yapf|prettier|gofmt|rustfmt|2to3|xargs)\b|\bruff\s+format|--fix\b|\bcargo\s+f|"
    r"-exec|-delete|\bclang-format|\bpre-commit\b|\bmake\s+\S*(?:format|fmt|fix)"
)
"""Commands that may change any file."""
_THIS_FILE = re.compile(
    r"(?<![0-9&])>(?!&)|\b(?:tee|mv|cp|rm|dd|truncate|ln|ed|ex|vi|vim|nano|install|unlink|rsync|touch)\b|"
    r"\b(?:sed|perl|ruby)\b[^\n]{0,200}\s-\w{0,10}i|write|open\("
)
"""What in a command that names a file may change it."""

_FOLDER = re.compile(r"\b(?:rm|mv|rmdir)\s")
"""What may take a folder away, with all that it holds."""
_WORDS = re.compile(r"[\w.-]+")
_HEREDOC = re.compile(r"cat ?> ?([\w./-]+) ?<< ?(['\"])(\w+)\2\n((?:[^\n]*\n)*?)\3")
_OPEN = re.compile(r"\(Open file: ([^\n)]{1,1000})\)")
_DIRECTORY = re.compile(r"[(\[]Current (?:working )?directory: (/[^\n)\]]{0,1000})[)\]]")


@dataclass
class _Kept:
    """What was found in a history of that length: files' texts, and `place_of`."""

    messages: list[Message]
    length: int
    texts: dict[str, str | None] = field(default_factory=dict)
    place: tuple[str | None, str | None] | None = None


_kept: OrderedDict[int, _Kept] = OrderedDict()


def file_text(messages: list[Message], path: str) -> str | None:
    """The text of the file at `path`; None where the history does not show it whole and up to date.

    Known is what a call wrote or created, what a tool showed from the first line to the last, and what edits made of it
    that the tool did not refuse. A shell command that may have changed the file ends it.
    """
    texts = _kept_of(messages).texts
    if path not in texts:
        if len(texts) >= KEPT:
            texts.clear()
        texts[path] = _follow(messages, path)
    return texts[path]


def _kept_of(messages: list[Message]) -> _Kept:
    kept = _kept.get(id(messages))
    if kept is None or kept.messages is not messages or kept.length != len(messages):
        kept = _kept[id(messages)] = _Kept(messages, len(messages))
        while len(_kept) > KEPT:
            _kept.popitem(last=False)
    return kept


def place_of(messages: list[Message]) -> tuple[str | None, str | None]:
    """(the working directory, the file that the editor has open), as the last answers name them that do (SWE-agent's
    `(Open file: /a/b.py)` and `(Current directory: /a)`, OpenHands' `[Current working directory: /a]`); None where none
    does, or the shell may have left the directory since."""
    kept = _kept_of(messages)
    if kept.place is None:
        kept.place = _find_place(messages)
    return kept.place


def _find_place(messages: list[Message]) -> tuple[str | None, str | None]:
    directory = opened = None
    left, moved = MOST_CHARACTERS, False
    for message in reversed(messages[-MOST_MESSAGES:]):
        content = _content(message)
        left -= len(content)
        if left < 0 or (opened and (directory or moved)):
            break
        end = content[-2000:]
        if directory is None and not moved and (found := _DIRECTORY.findall(end)):
            directory = found[-1].rstrip()
        if opened is None and (found := _OPEN.findall(end)):
            opened = found[-1].rstrip()
        moved = moved or any("cd " in arguments for _, arguments, _ in _calls_of(message))
    return directory, opened if opened != "n/a" else None


def _follow(messages: list[Message], path: str) -> str | None:
    text: str | None = None
    name = basename(path.rstrip("/"))
    for tool, arguments, answer in _calls(messages):
        window = window_file(answer) if "[File: " in answer[:20_000] else None
        if window and same_path(path, window[0]):
            text = window[1]
        elif (
            name in arguments
            or tool == "edit"
            or "*" in arguments
            or _ANY_FILE.search(arguments)
            or _FOLDER.search(arguments)
        ):
            text = _after(text, path, name, tool, arguments, answer)
    return text


def _after(text: str | None, path: str, name: str, tool: str, arguments: str, answer: str) -> str | None:
    """The file's text after one call, from that before it."""
    try:
        values = json.loads(arguments)
    except (ValueError, RecursionError):
        return None
    if not isinstance(values, dict):
        return None
    edits = read_edits(tool, values)
    if edits is not None and not isinstance(edits, Difference):
        for edit in edits:
            if edit.path and not may_be_same(path, edit.path) and not may_be_same(path, edit.moved_to):
                continue
            made = was_made(answer)
            if made is False:
                continue
            plain = made and edit.path and same_path(path, edit.path) and edit.kind != "delete" and not edit.moved_to
            after = apply_edit(text, edit) if plain else None
            text = after if isinstance(after, str) else None
        return text
    command = pick(values, COMMANDS)
    read = read_of(tool, values)
    printed = read_in_shell(command) if read is None else None
    look = printed or read
    if isinstance(look, Read):
        if (look.first, look.last) != (1, None) or not same_path(path, look.path):
            return text
        return _shown(answer, printed is not None) or text
    if isinstance(edits, Difference) or isinstance(read, Difference) or category(tool) in _HARMLESS:
        return text
    if isinstance(command, str):
        written = _HEREDOC.fullmatch(command.strip())
        whole = written and written[3] not in written[4].split("\n")
        if written and whole and same_path(path, written[1]) and was_made(answer):
            return written[4]
        if _FOLDER.search(command) and not set(_WORDS.findall(command)).isdisjoint(path.split("/")):
            return None
        named = name in command or "*" in command or "find" in command
        return None if _ANY_FILE.search(command) or (named and _THIS_FILE.search(command)) else text
    return None


def _shown(answer: str, plain: bool) -> str | None:
    """The file that an answer shows with its lines' numbers or, of a shell (`plain`), as it is."""
    shown = numbered_file(answer)
    if shown is None and plain:
        shown = plain_file(answer)
    return None if shown is None or shown.count("\n") + 1 == SHORTEST_CUT else shown


def _calls(messages: list[Message]) -> Iterator[tuple[str, str, str]]:
    """(tool, arguments as JSON text, answer) of the history's calls in order; a call without an answer has an empty
    one. Where the whole is too long, its beginning is left out."""
    left = MOST_CHARACTERS
    first = len(messages)
    for message in reversed(messages[-MOST_MESSAGES:]):
        left -= len(_content(message)) + sum(len(call[1]) for call in _calls_of(message))
        if left < 0:
            break
        first -= 1
    answers: dict[Any, list[str]] = {}
    shown = messages[first:]
    for index, message in enumerate(shown):
        calls = _calls_of(message)
        if not calls:
            continue
        answers = {}
        loose: list[str] = []
        for answer in shown[index + 1 :]:
            if not isinstance(answer, dict) or answer.get("role") != "tool":
                break
            identity = answer.get("tool_call_id")
            (answers.setdefault(identity, []) if isinstance(identity, str) else loose).append(_content(answer))
        for name, arguments, identity in calls:
            own = answers.get(identity) or loose
            yield name, arguments, own.pop(0) if own else ""


def _content(message: Any) -> str:
    content = message.get("content") if isinstance(message, dict) else None
    return content if isinstance(content, str) else ""


def _calls_of(message: Any) -> list[tuple[str, str, Any]]:
    calls = message.get("tool_calls") if isinstance(message, dict) else None
    result: list[tuple[str, str, Any]] = []
    for call in calls[:MOST_CALLS] if isinstance(calls, list) else ():
        function = call.get("function") if isinstance(call, dict) else None
        if isinstance(function, dict) and isinstance(function.get("name"), str):
            arguments = function.get("arguments")
            identity = call.get("id")
            text = arguments if isinstance(arguments, str) else ""
            result.append((function["name"], text, identity if isinstance(identity, str) else None))
    return result
