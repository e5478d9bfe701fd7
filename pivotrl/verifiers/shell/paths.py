"""Paths as text: `./a//b/../c` is `a/c`, and what is relative is taken from the directory of a leading `cd`.

Symbolic links are not known here, so that `a/../b` counts as `b`, as it does for `cd`.
"""

from dataclasses import dataclass
from typing import Any

from pivotrl.verifiers.shell.forms import Word, has_active, join

LONGEST_PATH = 1000
"""Characters of a directory that is followed through `cd`s."""
_OPENS_UNKNOWN = frozenset(("$", "${", "$(", "$((", "`", "raw", "<("))


@dataclass
class Scope:
    """Where the statement that is read runs. `directory` is None (nothing is known), a path, or a tuple that stands
    for a directory that only the shell could tell."""

    directory: Any = None
    persistent: bool = False
    """Later commands run in the same shell: a leading `cd` matters by itself."""

    def copy(self) -> "Scope":
        return Scope(self.directory, self.persistent)

    def lose(self) -> None:
        """Something moved to a directory that is not known. Equal scripts lose it in equal places, so that the last
        known one and a count say which it is."""
        known, count = (self.directory, 0) if not isinstance(self.directory, tuple) else self.directory[1:]
        self.directory = ("unknown", known, count + 1)


def normal(path: str) -> str:
    """A literal path in its shortest spelling, without a final slash; empty stays empty, which is no path."""
    if not path:
        return path
    steps: list[str] = []
    rooted = path.startswith("/")
    for step in path.split("/"):
        if step in ("", "."):
            continue
        if step == ".." and steps and steps[-1] != "..":
            steps.pop()
        elif step != ".." or not rooted:
            steps.append(step)
    return ("/" if rooted else "") + "/".join(steps) or "."


def resolve(word: Word, scope: Scope, keep_slash: bool = False) -> tuple[Word, bool]:
    """The word as a path, and whether it still depends on the directory.

    Args:
        keep_slash: a final slash says something (`cp a b/`).
    """
    directory = scope.directory
    known = directory is None or isinstance(directory, str)
    if isinstance(word, str):
        if not word or word.startswith("~"):
            # A quoted tilde, as an unquoted one is a part of its own: a file of that name.
            return word, directory is not None
        if not word.startswith("/") and not known:
            return word, True
        path = normal(f"{directory}/{word}" if known and directory and not word.startswith("/") else word)
        return (path + "/" if keep_slash and word.endswith("/") and path != "/" else path), False
    first = word[0]
    if not isinstance(first, str):
        if first[0] == "~":
            return _below_home(word, keep_slash), False
        if first[0] in _OPENS_UNKNOWN or not known or first[0] == "{":
            return word, directory is not None
        return join((directory.rstrip("/") + "/", *word) if directory else word), False
    if not first.startswith("/") and not known:
        return word, True
    base, slash, last = first.rpartition("/")
    if not slash:
        return (join((directory.rstrip("/") + "/", *word)) if directory else word), False
    base = normal(f"{directory}/{base}" if directory and not first.startswith("/") else base + slash)
    base = "" if base == "." else base.rstrip("/") + "/"
    return join((base + last, *word[1:])), False


def _below_home(word: tuple[Any, ...], keep_slash: bool) -> Word:
    """`~/a//b/` as `~/a/b`; what climbs out of the home stays as it is written."""
    if len(word) != 2 or not isinstance(word[1], str) or word[1][:1] != "/" or ".." in word[1]:
        return word
    path = normal(word[1])
    path = path + "/" if keep_slash and word[1].endswith("/") else path
    return (word[0], path) if path != "/" else (word[0],)


def depends_on_directory(word: Any) -> bool:
    """Whether a word that is no path still means something else elsewhere: it lists files, or names the directory."""
    if isinstance(word, str):
        return False
    if has_active(word, "*", "?", "[", "`", "raw"):
        return True
    return any(
        part[1] in ("PWD", "OLDPWD") if part[0] == "$" else "$(" in part[1] or "`" in part[1]
        for part in word
        if not isinstance(part, str) and part[0] in ("$", "${", "$((")
    )
