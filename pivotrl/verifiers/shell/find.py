"""`find`: its starting points as paths, and its tests in any order where the order cannot matter."""

from collections.abc import Callable
from typing import Any

from pivotrl.verifiers.shell.forms import Command, Word, names
from pivotrl.verifiers.shell.paths import Scope, depends_on_directory, resolve

_PURE = names(
    "-name -iname -path -ipath -wholename -iwholename -regex -iregex -type -xtype -size -mtime -mmin -atime -amin "
    "-ctime -cmin -newer -anewer -cnewer -perm -user -group -uid -gid -links -inum -maxdepth -mindepth -samefile "
    "-lname -ilname -fstype -used"
)
"""Tests and limits with a value that do nothing."""
_ABOUT_PATHS = names("-path -ipath -wholename -iwholename -regex -iregex")
"""These see the starting point as it is written."""
_PURE_ALONE = names("-empty -readable -writable -executable -nouser -nogroup -xdev -mount -depth -d")
_OTHER_NAMES = {"-not": "!", "-wholename": "-path", "-iwholename": "-ipath", "-mount": "-xdev", "-d": "-depth"}
_ACTIONS_ALONE = names("-print -print0 -delete -ls -quit")
_EXECUTE = names("-exec -execdir -ok -okdir")


def read_find(words: list[Word], scope: Scope, depth: int, read: Callable[..., Command]) -> Command:
    """The canonical form.

    Tests joined by "and" are sorted, up to the first action; `-print` at the end, where it is the only action, is what
    happens anyway. With `-o`, parentheses or `-prune` the expression stays in its order.
    """
    flags: list[tuple[str, None]] = []
    position = 0
    while position < len(words) and words[position] in ("-H", "-L", "-P"):
        flags.append((words[position][1], None))
        position += 1
    start = position
    while position < len(words) and not _opens_expression(words[position]):
        position += 1
    starts = [resolve(word, scope) for word in words[start:position]] or [resolve(".", scope)]
    expression = words[position:]
    terms, executes = _terms(expression, scope, depth, read)
    depends = (
        executes
        or any(unresolved for _, unresolved in starts)
        or any(depends_on_directory(word) or word in _ABOUT_PATHS for word in expression)
    )
    return Command(
        scope.directory if depends else None,
        (),
        "find",
        tuple(flags),
        (*(word for word, _ in starts), ("expression", *terms)),
    )


def _opens_expression(word: Word) -> bool:
    return isinstance(word, str) and (word in ("!", "(", ")", ",") or (word.startswith("-") and len(word) > 1))


def _terms(words: list[Word], scope: Scope, depth: int, read: Callable[..., Command]) -> tuple[list[Any], bool]:
    """Terms of an "and" in canonical order, or all words as they stand; and whether a command is executed."""
    tests: list[Any] = []
    actions: list[Any] = []
    negated, position, executes = False, 0, False
    while position < len(words):
        word = words[position]
        name = _OTHER_NAMES.get(word, word) if isinstance(word, str) else word
        following = words[position + 1] if position + 1 < len(words) else None
        position += 1
        if name in ("-a", "-and") and not negated and (tests or actions) and following is not None:
            continue
        if name == "!":
            negated = not negated
            continue
        if name in _PURE and following is not None and not actions:
            position += 1
            term = (name, following)
        elif name in _PURE_ALONE and not actions:
            term = (name,)
        elif name in _ACTIONS_ALONE and not negated:
            actions.append((name,))
            continue
        elif name in _EXECUTE and not negated:
            end = next((at for at in range(position, len(words)) if words[at] in (";", "+")), None)
            if end is None or end == position or depth > 20:
                return list(words), True
            command = read([], words[position:end], (), scope, depth + 1, appended=True)
            actions.append((name, command, words[end]))
            position, executes = end + 1, True
            continue
        else:
            return list(words), any(word in _EXECUTE for word in words)
        tests.append(("!", *term) if negated else term)
        negated = False
    if negated:
        return list(words), executes
    if actions == [("-print",)]:
        actions = []
    return sorted(tests, key=repr) + actions, executes
