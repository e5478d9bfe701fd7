"""Commands that run another one: `env`, `bash -c`; and `tar`, whose first word may be options without a dash."""

import re
from collections.abc import Callable
from typing import Any

from pivotrl.verifiers.shell.forms import DEEPEST, Command, Script, Unparsed, Word, head
from pivotrl.verifiers.shell.paths import Scope, resolve

DEEPEST_WRAPPED = DEEPEST
"""Levels of `sudo env nice ...`; what lies deeper is compared word by word."""

_LETTERS = re.compile("-[a-np-zA-NP-Z]+")
"""Options of a shell that take no value."""
_SIGNALS = {
    "0": "0",
    "1": "HUP",
    "2": "INT",
    "3": "QUIT",
    "6": "ABRT",
    "9": "KILL",
    "10": "USR1",
    "12": "USR2",
    "13": "PIPE",
    "14": "ALRM",
    "15": "TERM",
    "18": "CONT",
    "19": "STOP",
}
"""Of Linux on x86 and ARM."""

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
        if not rest:
            return None
        if not isinstance(rest[0], str) or not _LETTERS.fullmatch(rest[0]):
            return _script(name, letters, rest, scope)
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


def _script(name: str, letters: list[str], words: list[Word], scope: Scope) -> Command | None:
    """`bash -x a.sh`: the script's path in one spelling."""
    if head(words[0])[:1] in ("-", "+"):
        return None
    path, _ = resolve(words[0], scope)
    options = tuple((letter, None) for letter in sorted(set(letters)))
    return Command(scope.directory, (), name, options, (path, *words[1:]))


def _kill(name: str, words: list[Word], scope: Scope, depth: int, read: Read) -> Command | None:
    """`kill -9`, `-KILL`, `-SIGKILL`, `-s KILL` and `-n 9` are one signal, and none is TERM."""
    signal, rest = "TERM", words
    text = head(words[0]) if words else ""
    if text in ("-s", "-n", "--signal"):
        signal, rest = _signal(words[1]) if len(words) > 1 else None, words[2:]
    elif text.startswith("-") and text != "--":
        signal, rest = _signal(words[0][1:]) if isinstance(words[0], str) else None, words[1:]
    if signal is None:
        return None
    rest = rest[1:] if rest[:1] == ["--"] else rest
    return Command(scope.directory, (), name, (("s", signal),), tuple(rest))


def _pkill(name: str, words: list[Word], scope: Scope, depth: int, read: Read) -> Command | None:
    """`-9` and `-KILL` as `--signal=KILL`."""
    for place, word in enumerate(words):
        if isinstance(word, str) and word[:1] == "-" and (signal := _signal(word[1:])) is not None:
            return read([], [name, *words[:place], f"--signal={signal}", *words[place + 1 :]], (), scope, depth + 1)
        if word == "--signal" and place + 1 < len(words) and (signal := _signal(words[place + 1])) is not None:
            return read([], [name, *words[:place], f"--signal={signal}", *words[place + 2 :]], (), scope, depth + 1)
    return None


def _signal(word: Word) -> str | None:
    """A signal's name by its number or its name; None for any other word."""
    name = word.upper().removeprefix("SIG") if isinstance(word, str) else ""
    name = _SIGNALS.get(name, name)
    return name if name in _SIGNALS.values() else None


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
    "kill": _kill,
    "pkill": _pkill,
}
"""Each returns None where the command is one for the table of tools, or for comparing word by word."""
