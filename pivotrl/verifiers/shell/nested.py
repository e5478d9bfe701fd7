"""Commands that run another one: `env`, `bash -c`; and `tar`, whose first word may be options without a dash."""

import re
from collections.abc import Callable
from typing import Any

from pivotrl.verifiers.shell.forms import DEEPEST, Command, Script, Unparsed, Word, head
from pivotrl.verifiers.shell.paths import Scope

DEEPEST_WRAPPED = DEEPEST
"""Levels of `sudo env nice ...`; what lies deeper is compared word by word."""

_LETTERS = re.compile("-[a-np-zA-NP-Z]+")
"""Options of a shell that take no value."""

Read = Callable[..., Command]
"""`simple.simple_command`, handed in, as it calls these."""


def _env(name: str, words: list[Word], scope: Scope, depth: int, read: Read) -> Command | None:
    """`env A=1 command` is `A=1 command`; with options, or with nothing to run, it stays as it is."""
    environment: list[tuple[str, str, Word]] = []
    for index, word in enumerate(words):
        text = head(word)
        variable, equals, _ = text.partition("=")
        if equals and variable.isidentifier():
            value = _after(word, len(variable) + 1)
            environment.append((variable, "=", value))
            continue
        return None if text.startswith("-") else read(environment, words[index:], (), scope, depth + 1)
    return None


def _after(word: Word, length: int) -> Word:
    if isinstance(word, str):
        return word[length:]
    first = word[0][length:]
    rest = (first, *word[1:]) if first else word[1:]
    return rest[0] if len(rest) == 1 and isinstance(rest[0], str) else rest


def _shell(name: str, words: list[Word], scope: Scope, depth: int, read: Read) -> Command | None:
    """`bash -lc 'script' ...`: the script in its canonical form."""
    letters: list[str] = []
    rest = words
    while "c" not in letters:
        if not rest or not isinstance(rest[0], str) or not _LETTERS.fullmatch(rest[0]):
            return None
        letters.extend(rest[0][1:])
        rest = rest[1:]
    if not rest or not isinstance(rest[0], str):
        return None
    from pivotrl.verifiers.shell.compare import read_text  # they need each other

    try:
        script: Any = read_text(rest[0], Scope(scope.directory), depth + 1)
    except Unparsed:
        script = Script(((("raw", rest[0].strip()), ""),))
    options = tuple((letter, None) for letter in sorted(set(letters)))
    return Command(scope.directory, (), name, options, (script, *rest[1:]))


def _tar(name: str, words: list[Word], scope: Scope, depth: int, read: Read) -> Command | None:
    """`tar xzf a.tgz` is `tar -x -z -f a.tgz`: letters that take a value take the words that follow, in turn."""
    if not words or head(words[0]).startswith("-"):
        return None
    if not isinstance(words[0], str) or not words[0].isalpha():
        return Command(scope.directory, (), name, None, tuple(words))
    spelled: list[Word] = []
    rest = words[1:]
    for letter in words[0]:
        spelled.append(f"-{letter}")
        if letter in "fbCTXIKNVFgHL":
            if not rest:
                return None
            spelled.append(rest[0])
            rest = rest[1:]
    return read([], [name, *spelled, *rest], (), scope, depth)


WRAPPERS: dict[str, Callable[[str, list[Word], Scope, int, Read], Command | None]] = {
    "env": _env,
    "bash": _shell,
    "sh": _shell,
    "zsh": _shell,
    "dash": _shell,
    "tar": _tar,
}
"""Each returns None where the command is one for the table of tools, or for comparing word by word."""
