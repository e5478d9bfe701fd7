"""A call of a command of the table of tools in its canonical form."""

from collections.abc import Callable
from typing import Any

from pivotrl.verifiers.shell.forms import DEEPEST, Command, Word, has_active, join
from pivotrl.verifiers.shell.options import Tool, literal_globs, read_options
from pivotrl.verifiers.shell.paths import Scope, depends_on_directory, resolve
from pivotrl.verifiers.shell.tables import TOOLS

_ELSEWHERE = ("unknown", "another machine", 0)
_ABSENT = object()

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
        if known.shared:
            shared.extend(here)
        else:
            options.extend((f"{name}:{option}", value) for option, value in here)
        if not operands or not isinstance(operands[0], str) or operands[0] not in known.sub:
            return None
        wanted = known.sub[operands[0]]
        name = f"{name} {next(label for label, sub in known.sub.items() if sub is wanted)}"
        known, arguments = wanted, operands[1:]
    here = shared + here
    if known.script and operands and not any(option in known.script for option, _ in here):
        here.append((known.script[0], operands[0]))
        operands = operands[1:]
    default = known.default
    if default == "recursive":
        default = "." if any(option in ("r", "R") for option, _ in here) else None
    if not operands and default and not appended:
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
            if option in known.paths and value != "-":
                value, unresolved = resolve(value, scope)
                depends |= unresolved
            elif not isinstance(value, str):
                depends |= depends_on_directory(value)
        found.append((option, value))
    return found, depends


def _ordered(known: Tool, options: list[tuple[str, Any]]) -> list[tuple[str, Any]]:
    """Options sorted by name, those of one group in the order given; what says nothing is left out."""
    if known.defaults:
        options = [(option, value) for option, value in options if known.defaults.get(option, _ABSENT) != value]
    if len(options) > 1:
        groups = {option: group for group in known.exclusive for option in group.split("/")}
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
        elif not any(option in known.last for option, _ in options):
            operands[0], _ = resolve(operands[0], scope)
    elif kind == "joined" and all(_is_one_word(word) for word in operands):
        spaced = [part for word in operands for part in (" ", *((word,) if isinstance(word, str) else word))]
        operands = [join(tuple(spaced[1:]))]
    return [*first, *operands], depends


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
