"""Looking for text or files, as data."""

import re
from dataclasses import dataclass
from typing import Any

from pivotrl.trajectories.faults import excerpt
from pivotrl.verifiers.base import Difference
from pivotrl.verifiers.code.paths import same_path
from pivotrl.verifiers.code.shapes import Arguments, pick, tool_key
from pivotrl.verifiers.tool_categories import category

PATTERN = ("pattern", "query", "regex", "search_term", "file_name", "glob_pattern", "search")
FOLDER = ("path", "dir", "directory", "file", "file_path", "folder", "target_directory", "relative_workspace_path")

_FOR_TEXT = "grep grep_files search_text text_search code_search find_in_files find_pattern search_dir search_file"
_FOR_FILES = "glob file_glob find_files match_files find_file"
_LISTING = "list_dir list_directory ls ls_dir show_dir"
_KINDS = {
    tool_key(name): kind
    for kind, names in (("text", _FOR_TEXT), ("files", _FOR_FILES), ("list", _LISTING))
    for name in names.split()
}
_WORD = r"(?:'([^'\\]*)'|\"([^\"\\$`!]*)\"|([\w./-]+))"
_GREP = re.compile(
    rf"(?:cd ([\w./-]+) ?(?:&&|;) ?)?(?:grep (?:-(?:rn|nr|Rn|nR|r|R)|-r -n|-n -r)|rg(?: -n)?) {_WORD}(?: ([\w./-]+))?"
)
_PLAIN = re.compile(r"[\w :,=@/\"'<>-]+")


@dataclass(frozen=True)
class Search:
    """`kind`: text, files, list, or the tool's own name where it may be any of them."""

    kind: str
    pattern: str
    folder: str
    bare: bool
    """There is nothing but a pattern and a folder, so that tools of other names can do the same."""


def search_of(name: Any, arguments: Arguments) -> Search | None:
    """What a call searches; None where it is no search that is known."""
    key = tool_key(name)
    kind = _KINDS.get(key) or (key if category(key) == "search" else None)
    if kind is None:
        return None
    pattern, folder = pick(arguments, PATTERN), pick(arguments, FOLDER)
    given = [value for value in arguments.values() if value is not None]
    used = [value for value in (pattern, folder) if value is not None]
    bare = len(given) == len(used) and all(isinstance(value, str) for value in used)
    return Search(kind, pattern if isinstance(pattern, str) else "", folder if isinstance(folder, str) else "", bare)


def search_in_shell(command: str) -> Search | None:
    """The search for plain text that `grep -rn TEXT DIR` or `rg TEXT DIR` is; None for all else."""
    match = _GREP.fullmatch(command.strip()) if len(command) <= 4096 else None
    if match is None:
        return None
    pattern = next((group for group in match.groups()[1:4] if group is not None), "")
    if not _PLAIN.fullmatch(pattern) or pattern.startswith("-"):
        return None
    start, folder = match[1] or "", match[5] or ""
    return Search("text", pattern, f"{start}/{folder}" if start and not folder.startswith("/") else folder, True)


def compare_searches(expected: Search, actual: Search, cwd: str | None = None) -> Difference | None:
    """Searches by tools of different names. `cwd`: see `paths.same_path`."""
    if expected.kind != actual.kind or not (expected.bare and actual.bare):
        return Difference("other_tool", "another kind of search")
    if not actual.pattern.strip() and expected.pattern.strip():
        return Difference("missing_argument", "no pattern")
    if expected.pattern != actual.pattern:
        return Difference("other_value", f"searches {excerpt(actual.pattern)}, expected {excerpt(expected.pattern)}")
    if not same_path(expected.folder or ".", actual.folder or ".", cwd):
        return Difference("other_target", f"in {excerpt(actual.folder)}, expected {excerpt(expected.folder)}")
    return None
