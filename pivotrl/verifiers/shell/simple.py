"""A simple command in its canonical form: prefixes, other names, options, operands and paths."""

from typing import Any

from pivotrl.verifiers.shell import nested
from pivotrl.verifiers.shell.find import read_find
from pivotrl.verifiers.shell.forms import Command, Redirect, Word, names
from pivotrl.verifiers.shell.paths import Scope, resolve
from pivotrl.verifiers.shell.tables import OTHER_NAMES
from pivotrl.verifiers.shell.tooling import read_tool

_FOLDERS = ("/usr/bin/", "/bin/")
_OWN_FOLDER = names("python python3 pip pip3 pytest node npm")
"""Programs of which a machine often has several; `/usr/bin/python` may not be `python`."""


def simple_command(
    environment: list[Any],
    words: list[Word],
    redirects: tuple[Redirect, ...],
    scope: Scope,
    depth: int,
    appended: bool = False,
) -> Command:
    """The canonical form.

    Args:
        environment: assignments (name, operator, value) in front of the command.
        words: its name and arguments.
        appended: more operands follow when it runs (`xargs`, `find -exec`).
    """
    if not words:
        return Command(None, tuple(environment), "", (), (), redirects)
    name, arguments = words[0], words[1:]
    if isinstance(name, str):
        name = _name(name, scope)
        if name in OTHER_NAMES:
            name, first = OTHER_NAMES[name]
            arguments = [*first, *arguments]
        if name in nested.WRAPPERS and depth <= nested.DEEPEST_WRAPPED:
            found = nested.WRAPPERS[name](name, arguments, scope, depth, simple_command)
            if found is not None:
                return found._replace(environment=_sorted([*environment, *found.environment]), redirects=redirects)
        if name == "find":
            form = read_find(arguments, scope, depth, simple_command)
        else:
            form = read_tool(name, arguments, scope, depth, appended, simple_command)
        if form is not None:
            return form._replace(environment=_sorted(environment), redirects=redirects)
    return Command(scope.directory, _sorted(environment), name, None, tuple(arguments), redirects)


def _sorted(environment: list[Any]) -> tuple[Any, ...]:
    """Assignments by name, those of one name in the order given; as they stand where one may read another."""
    if len(environment) > 1 and all(isinstance(value, str) for _, _, value in environment):
        environment = sorted(environment, key=lambda assignment: assignment[0])
    return tuple(environment)


def _name(name: str, scope: Scope) -> str:
    for folder in _FOLDERS:
        if name.startswith(folder):
            bare = name.removeprefix(folder)
            return bare if "/" not in bare and bare not in _OWN_FOLDER else name
    if "/" in name:
        path, depends = resolve(name, scope)
        assert isinstance(path, str)
        return path if depends or "/" in path else f"./{path}"
    return name
