"""The canonical forms of words, commands and scripts: tuples, equal where two commands are the same.

A word without expansions is a `str`, quotes and escapes taken away; any other word is a tuple of parts: literal `str`
and tuples for what the shell acts on, such as `("*",)` or `("$", "HOME", quoted)`.
"""

from typing import Any, NamedTuple

Word = str | tuple[Any, ...]

DEEPEST = 24
"""Levels of nesting (subshells, substitutions, `bash -c`, `sudo env nice ...`) that are taken apart; deeper counts as
not parsed. Each costs up to five Python frames."""


def names(text: str) -> frozenset[str]:
    """A set of names, written apart by spaces."""
    return frozenset(text.split())


class Unparsed(Exception):
    """What stands in a command is outside the part of the language that is understood here."""


class Redirect(NamedTuple):
    """`2>f`, `<<EOF`, ... `directory` is set only where the target's path depends on a directory not known."""

    descriptor: str
    operator: str
    target: Any
    directory: Any = None


class Command(NamedTuple):
    """One simple command.

    `directory` is where it runs: None where that does not matter, or is nowhere said. `options` are pairs of a name
    and a value (None: no value), sorted; None where the tool or one of its options is not known, and then `operands`
    are all arguments as they stand. An operand may be a Command (`sudo`, `xargs`, ...) or a Script (`bash -c`).
    """

    directory: Any
    environment: tuple[Any, ...]
    name: Word
    options: tuple[Any, ...] | None
    operands: tuple[Any, ...]
    redirects: tuple[Redirect, ...] = ()


class Compound(NamedTuple):
    """A pipeline, subshell, loop, ...: its kind, and its parts, which are words, keywords, commands and scripts."""

    kind: str
    parts: tuple[Any, ...]
    redirects: tuple[Redirect, ...] = ()


class Script(NamedTuple):
    """Statements in order, each with what ends it: `;` (a newline too), `&`, `&&`, `||`; the last `;` is left out."""

    steps: tuple[tuple[Any, str], ...]


def has_active(word: Word, *kinds: str) -> bool:
    """Whether a part of one of these kinds stands in the word."""
    return not isinstance(word, str) and any(not isinstance(part, str) and part[0] in kinds for part in word)


def head(word: Word) -> str:
    """The literal text that a word starts with; empty where it starts with an expansion."""
    if isinstance(word, str):
        return word
    return word[0] if isinstance(word[0], str) else ""


def drop(word: Word, length: int) -> Word:
    """The word without the first `length` characters, which are literal."""
    if isinstance(word, str):
        return word[length:]
    rest = (word[0][length:], *word[1:]) if len(word[0]) > length else word[1:]
    return join(rest)


def join(parts: tuple[Any, ...]) -> Word:
    """A word out of its parts; neighbouring literals become one."""
    merged: list[Any] = []
    for part in parts:
        if isinstance(part, str):
            if not part:
                continue
            if merged and isinstance(merged[-1], str):
                merged[-1] += part
                continue
        merged.append(part)
    if not merged:
        return ""
    return merged[0] if len(merged) == 1 and isinstance(merged[0], str) else tuple(merged)
