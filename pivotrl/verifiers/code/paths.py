"""Paths as text: nothing here looks at a file."""

from posixpath import basename
from typing import Any

from pivotrl.verifiers.shell.paths import normal

LONGEST = 4096
"""Characters; a longer path is no path."""


def same_path(expected: str, actual: Any, cwd: str | None = None) -> bool:
    """Whether both name one file: equal in their shortest spelling; or one is absolute, and the other one, relative, is
    it from the directory `cwd`. A relative path of two components or more may start from a folder above `cwd` too (a
    tool's root), and where `cwd` is not known (None), from any."""
    if not isinstance(actual, str) or len(actual) > LONGEST:
        return False
    wanted, found = normal(expected.strip()), normal(actual.strip())
    if wanted == found:
        return True
    if wanted.startswith("/") == found.startswith("/"):
        return False
    absolute, relative = (wanted, found) if wanted.startswith("/") else (found, wanted)
    if cwd is not None:
        if normal(f"{cwd}/{relative}") == absolute:
            return True
        root = normal(absolute.removesuffix("/" + relative))
        if not (normal(cwd) + "/").startswith(root + "/"):
            return False
    return "/" in relative and not relative.startswith("..") and absolute.endswith("/" + relative)


def may_be_same(path: str, other: str) -> bool:
    """Whether both could name one file, for all that is known of the directory that relative ones start from."""
    if same_path(path, other):
        return True
    left, right = normal(path.strip()), normal(other.strip())
    return basename(left) == basename(right) and not (left.startswith("/") and right.startswith("/"))
