"""A call of a command of the table of tools in its canonical form."""

import re
from collections import Counter
from collections.abc import Callable
from typing import Any

from pivotrl.verifiers.shell.forms import DEEPEST, Command, Word, has_active, head, join
from pivotrl.verifiers.shell.options import Tool, literal_globs, read_options
from pivotrl.verifiers.shell.paths import Scope, depends_on_directory, normal, resolve
from pivotrl.verifiers.shell.tables import TOOLS

_ELSEWHERE = ("unknown", "another machine", 0)
_ABSENT = object()
_OCTAL = re.compile("0[0-7]{3}")
_TIME = re.compile("([0-9]{1,9})([smhd]?)")
_UNITS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}

Read = Callable[..., Command]
"""`simple.simple_command`, handed in, as it calls this module."""


def read_tool(name: str, arguments: list[Word], scope: Scope, depth: int, appended: bool, read: Read) -> Command | None:
    """The canonical form; None where the command, or one of its options, is not in the table.

    Args:
        appended: more operands follow when it runs.
        read: for a command among the operands.
    """
    known = TOOLS.get(name)
    if known is None:
        return None
    options: list[tuple[str, Any]] = []  # of the levels above a sub-command
    shared: list[tuple[str, Any]] = []
    while True:
        found = read_options(known, arguments)
        if found is None:
            return None
        here, operands = found
        if known.directory:
            here, scope = _moved(known.directory, here, scope)
        if not known.sub:
            break
        if not operands and known.bare:
            name, known = f"{name} {known.bare}", known.sub[known.bare]
            continue
        if known.shared:
            shared.extend(here)
        else:
            options.extend((f"{name}:{option}", value) for option, value in here)
        if not operands or not isinstance(operands[0], str) or operands[0] not in known.sub:
            return None
        name = f"{name} {known.other_names.get(operands[0], operands[0])}"
        known, arguments = known.sub[operands[0]], operands[1:]
    here = shared + here
    if known.script and operands and not any(option in known.script for option, _ in here):
        here.append((known.script[0], operands[0]))
        operands = operands[1:]
    default = known.default
    if default == "recursive":
        default = "." if any(option in ("r", "R") for option, _ in here) else None
    if not operands and default and not appended and not any(option in known.last for option, _ in here):
        operands = [default]
    here, depends = _option_paths(known, here, scope)
    canonical, unresolved = _operands(known, here, operands, scope, depth, name == "xargs", read)
    options.extend(_ordered(known, here))
    directory = scope.directory if depends or unresolved or not known.free else None
    return Command(directory, (), name, tuple(options), tuple(canonical))


def _moved(option: str, options: list[tuple[str, Any]], scope: Scope) -> tuple[list[tuple[str, Any]], Scope]:
    """`git -C a`: the options without it, and where the rest runs; as it was where that is not clear."""
    values = [value for name, value in options if name == option]
    if len(values) == 1:
        path, depends = resolve(values[0], scope)
        if not depends and isinstance(path, str) and path and not path.startswith("~"):
            return [pair for pair in options if pair[0] != option], Scope(path)
    return options, scope


def _option_paths(known: Tool, options: list[tuple[str, Any]], scope: Scope) -> tuple[list[tuple[str, Any]], bool]:
    """Options with their paths resolved, and whether one of them depends on the directory."""
    depends = False
    found: list[tuple[str, Any]] = []
    for option, value in options:
        if value is not None:
            if known.literal_globs:
                value = literal_globs(value)
            if option in known.paths and value != "-":
                value, unresolved = resolve(value, scope)
                depends |= unresolved
            elif not isinstance(value, str):
                depends |= depends_on_directory(value)
        found.append((option, value))
    return found, depends


def _ordered(known: Tool, options: list[tuple[str, Any]]) -> list[tuple[str, Any]]:
    """Options sorted by name, those of one group in the order given; what says nothing is left out."""
    given = {option for option, _ in options}
    for option, value in options if known.spread else ():
        if option in known.spread:
            options = [pair for pair in options if pair[0] != option]
            options += [(other, value) for other in known.spread[option] if other not in given]
    groups = {option: group for group in known.exclusive for option in group.split("/")}
    if known.defaults:
        counts = Counter(groups.get(option, option) for option, _ in options)
        options = [
            (option, value)
            for option, value in options
            if known.defaults.get(option, _ABSENT) != value or counts[groups.get(option, option)] > 1
        ]
    if len(options) > 1:
        options.sort(key=lambda pair: groups.get(pair[0], pair[0]))
    return options


def _operands(
    known: Tool,
    options: list[tuple[str, Any]],
    operands: list[Any],
    scope: Scope,
    depth: int,
    appended: bool,
    read: Read,
) -> tuple[list[Any], bool]:
    """Operands in one spelling, and whether one of them depends on the directory."""
    if not operands:
        return operands, False
    if known.literal_globs:
        operands = [literal_globs(word) for word in operands]
    kind = known.operands
    first: list[Any] = []
    if kind.startswith("mode "):
        first, operands, kind = operands[:1], operands[1:], kind.removeprefix("mode ")
        first = [_without_zero(word) for word in first] if kind == "paths" else first
    if known.durations:
        first, operands = [_seconds(word) for word in (first or operands[:1])], operands[not first :]
    if known.pathspecs:
        operands = _pathspecs(operands, scope)
    if kind == "paths":
        resolved = [resolve(word, scope, known.keep_slash) if word != "-" else (word, False) for word in operands]
        operands = [word for word, _ in resolved]
        depends = any(unresolved for _, unresolved in resolved)
    else:
        depends = any(depends_on_directory(word) for word in operands)
    if known.unordered and len(operands) > 1 and _is_set(operands):
        operands.sort(key=repr)
    if kind in ("command", "elsewhere") and operands and depth < DEEPEST:
        where = Scope(_ELSEWHERE) if kind == "elsewhere" else scope
        operands = [read([], operands, (), where, depth + 1, appended=appended)]
    elif kind == "program" and operands:
        module = next((value for option, value in options if option == "m"), None)
        if module in ("pip", "pytest") and depth < DEEPEST:
            operands = [read([], [module, *operands], (), scope, depth + 1)]
        elif operands[0] != "-" and not any(option in known.last for option, _ in options):
            operands[0], _ = resolve(operands[0], scope)
    elif kind == "joined" and all(_is_one_word(word) for word in operands):
        spaced = [part for word in operands for part in (" ", *((word,) if isinstance(word, str) else word))]
        operands = [join(tuple(spaced[1:]))]
    return [*first, *operands], depends


def _without_zero(mode: Word) -> Word:
    """`0755` as `755`; a fifth digit would say something."""
    return mode[1:] if isinstance(mode, str) and _OCTAL.fullmatch(mode) else mode


def _seconds(word: Word) -> Word:
    """`60s` and `1m` as `60`."""
    found = _TIME.fullmatch(word) if isinstance(word, str) else None
    return str(int(found[1]) * _UNITS[found[2]]) if found else word


def _pathspecs(operands: list[Any], scope: Scope) -> list[Any]:
    """Operands with those that can only be paths in one spelling."""
    behind, found = False, []
    for word in operands:
        text = head(word)
        if behind and text and text[0] not in ":~":
            word, _ = resolve(word, scope)
        elif text.startswith("./") and isinstance(word, str):
            word = normal(word)
        behind |= word == "--"
        found.append(word)
    return found


def _is_set(operands: list[Word]) -> bool:
    """Whether the order cannot matter: nothing is run to find the operands, and none is a folder of another."""
    if any(has_active(word, "$", "${", "$(", "`", "<(") for word in operands):
        return False
    plain = {word for word in operands if isinstance(word, str)}
    for word in plain:
        step = word
        while "/" in step:
            step = step.rpartition("/")[0]
            if step in plain:
                return False
    return not plain & {".", "..", "/"}


def _is_one_word(word: Word) -> bool:
    """Whether the shell makes exactly one word of it."""
    if isinstance(word, str):
        return True
    return all(isinstance(part, str) or (len(part) > 2 and part[-1] is True and part[1] != "@") for part in word)
