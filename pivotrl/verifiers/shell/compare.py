"""Are two shell commands the same command? They are parsed, brought into a canonical form and compared; never run.

The same: quoting, white space, line continuations, comments; the order, bundling and spelling of known options; paths
as text; a `cd` in front and the paths below it; environment prefixes; the delimiter of a here-document; `egrep` for
`grep -E` and the like. Different: whatever else is; of commands and options that `tables` does not know, every word
counts in its place. Taken for granted: GNU tools, no aliases or functions under their names, no symbolic links on the
way, a leading `cd` that succeeds, and that it does not matter how a command prints names (`./a` or `a`).
"""

import shlex
from functools import lru_cache
from typing import Any

from pivotrl.trajectories.faults import excerpt
from pivotrl.verifiers.base import Difference
from pivotrl.verifiers.shell.explain import explain
from pivotrl.verifiers.shell.forms import Script, Unparsed
from pivotrl.verifiers.shell.parse import LONGEST_COMMAND, parse
from pivotrl.verifiers.shell.paths import Scope, normal
from pivotrl.verifiers.shell.syntax import ScriptReader


def compare(expected: Any, actual: Any, *, cwd: str | None = None, persistent: bool = False) -> Difference | None:
    """Why `actual` is not the command `expected`; None where it is.

    Args:
        expected: the expert's command: text, or a list of a program and its arguments (`["bash", "-lc", "ls"]`).
        actual: the model's, untrusted; any value. What is neither is never equal.
        cwd: the directory that both run in, where it is known.
        persistent: later commands run in the same shell, so that a leading `cd` matters by itself.
    """
    expected, actual = _as_text(expected), _as_text(actual)
    if not isinstance(actual, str) or not isinstance(expected, str):
        return Difference("other_type", f"expected {excerpt(expected)}, found {excerpt(actual)}")
    if expected == actual:
        return None
    if len(actual) > LONGEST_COMMAND or len(expected) > LONGEST_COMMAND:
        return Difference("too_long", f"more than {LONGEST_COMMAND} characters, and not the same text")
    wanted = _expected_form(expected, cwd, persistent)
    found = _actual_form(actual, cwd, persistent)
    if isinstance(wanted, Difference) or isinstance(found, Difference):
        if expected.strip() == actual.strip():
            return None
        return found if isinstance(found, Difference) else Difference("not_parsed", "the expert's: not the same text")
    return None if wanted == found else explain(wanted, found)


def _as_text(command: Any) -> Any:
    """A list of a program and its arguments as a command; anything else as it is."""
    if isinstance(command, list) and len(command) < LONGEST_COMMAND and all(isinstance(word, str) for word in command):
        return " ".join(map(shlex.quote, command))
    return command


def canonical(command: str, *, cwd: str | None = None, persistent: bool = False) -> Script | Difference:
    """The canonical form, hashable, equal for equal commands; or why there is none (`not_parsed`, `too_long`)."""
    if len(command) > LONGEST_COMMAND:
        return Difference("too_long", f"{len(command)} characters, of which {LONGEST_COMMAND} are read")
    try:
        return read_text(command, Scope(normal(cwd) if cwd else None, persistent), 0)
    except Unparsed as fault:
        return Difference("not_parsed", f"{fault}: {excerpt(command)}")


def read_text(command: str, scope: Scope, depth: int) -> Script:
    """The canonical form of a text at a depth of nesting. Raises Unparsed."""
    root, source, documents = parse(command)
    reader = ScriptReader(source, documents)
    return reader.read_script(reader.statements(root), scope, depth)


_actual_form = lru_cache(maxsize=128)(
    lambda command, cwd, persistent: canonical(command, cwd=cwd, persistent=persistent)
)
"""A model's commands, while each is compared with several of the expert's."""
_expected_form = lru_cache(maxsize=2048)(
    lambda command, cwd, persistent: canonical(command, cwd=cwd, persistent=persistent)
)
"""The expert's commands, each judged against many samples."""
