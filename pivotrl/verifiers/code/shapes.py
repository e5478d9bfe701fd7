"""Which edit a call of a common tool is: the names of tools, and of their arguments, in one place."""

import re
from collections.abc import Callable
from typing import Any

from pivotrl.trajectories.faults import excerpt
from pivotrl.verifiers.base import Difference
from pivotrl.verifiers.code.diffs import FilePatch, read_blocks, read_patch
from pivotrl.verifiers.code.edits import AT_END, Edit, Replacement

PATH = ("path", "file_path", "filename", "file", "target_file", "filepath", "file_name", "relative_path")
TEXT = ("content", "file_text", "contents", "text", "code_edit", "code")
OLD = ("old_str", "old_string", "search", "old_text", "old")
NEW = ("new_str", "new_string", "replace", "new_text", "new", "replacement")
PATCH = ("patch", "diff", "input", "patch_text", "changes")
MOST_PARTS = 256
"""Replacements of one call that are read; a call of more is none that is known."""

Arguments = dict[str, Any]
Reading = tuple[Edit, ...] | Difference | None
"""The edits, one a file; why the call is unusable; or None: not an edit that is known."""

_PARTS = re.compile(r"__|[./:]")


def read_edits(name: Any, arguments: Any) -> Reading:
    """What a call edits. Neither the name nor the arguments need to be trusted."""
    if not isinstance(name, str) or len(name) > 256 or not isinstance(arguments, dict):
        return None
    reader = _READERS.get(tool_key(name))
    return reader(arguments) if reader else None


def is_editor(name: str) -> bool:
    """Whether a tool edits text, by its name; many of them show files as well."""
    return _READERS.get(tool_key(name)) in (_editor, _commanded, _edit)


def tool_key(name: str) -> str:
    """A tool's name in lower case, without underscores, and without what a server's name puts before it."""
    return _PARTS.split(name)[-1].lower().replace("_", "").replace("-", "")


def pick(arguments: Arguments, names: tuple[str, ...]) -> Any:
    """The first of the arguments that is given and not null."""
    return next((arguments[name] for name in names if arguments.get(name) is not None), None)


def as_flag(value: Any) -> bool:
    """Also as text: some harnesses pass all arguments as text."""
    return value is True or (isinstance(value, str) and value.lower() == "true")


def as_integer(value: Any) -> int | None:
    """Also as text, and as a float without a fraction."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return value if abs(value) < 10**9 else None
    if isinstance(value, float):
        return int(value) if abs(value) < 10**9 and value.is_integer() else None
    if isinstance(value, str) and re.fullmatch(r"-?[0-9]{1,9}", value):
        return int(value)
    return None


def _missing(what: str) -> Difference:
    return Difference("missing_argument", what)


def _path(arguments: Arguments) -> str | Difference:
    path = pick(arguments, PATH)
    if not isinstance(path, str) or not path.strip():
        return _missing("no path")
    if path.strip().endswith("/"):
        return Difference("other_target", f"{excerpt(path)} is a folder")
    return path


def _commanded(arguments: Arguments) -> Reading:
    return _missing("no command") if arguments.get("command") is None else _editor(arguments)


def _editor(arguments: Arguments) -> Reading:
    """`str_replace_editor` and its like: `command` says which of several edits it is."""
    command = arguments.get("command")
    if command is None:
        return _replace_or_write(arguments)
    path = _path(arguments)
    if command == "view":
        return None
    if isinstance(path, Difference):
        return path
    if command == "create":
        return _write(arguments)
    if command == "str_replace":
        return _replace(arguments, path)
    if command == "insert":
        return _insert(arguments, path)
    if command == "undo_edit":
        return (Edit("undo", path),)
    return None


def _write(arguments: Arguments) -> Reading:
    path, text = _path(arguments), pick(arguments, TEXT)
    if isinstance(path, Difference):
        return path
    if not isinstance(text, str):
        return _missing("no content")
    return (Edit("write", path, text),)


def _create(arguments: Arguments) -> Reading:
    """SWE-agent's `create` opens an empty file."""
    path = _path(arguments)
    return path if isinstance(path, Difference) else (Edit("write", path, pick(arguments, TEXT) or ""),)


def _replace(arguments: Arguments, path: str) -> Reading:
    part = _replacement(arguments)
    return part if isinstance(part, Difference) else (Edit("replace", path, replacements=(part,)),)


def _replacement(arguments: Arguments) -> Replacement | Difference:
    old, new = pick(arguments, OLD), pick(arguments, NEW)
    if not isinstance(old, str):
        return _missing("no text to be replaced")
    if new is None:
        new = ""
    if not isinstance(new, str):
        return _missing("no new text")
    return Replacement(old, new, as_flag(pick(arguments, ("replace_all", "replace-all", "allow_multiple"))))


def _insert(arguments: Arguments, path: str) -> Reading:
    line = as_integer(pick(arguments, ("insert_line", "line")))
    text = pick(arguments, ("new_str", "insert_text", "text", "content"))
    if line is None or not isinstance(text, str):
        return _missing("no line, or no text")
    return (Edit("insert", path, text, first=line),)


def _open_file_insert(arguments: Arguments) -> Reading:
    text, line = arguments.get("text"), as_integer(arguments.get("line"))
    if not isinstance(text, str):
        return _missing("no text")
    return (Edit("insert", "", text, first=AT_END if line is None else line),)


def _edit(arguments: Arguments) -> Reading:
    """Claude Code's Edit, SWE-agent's two forms of `edit` (of the file that is open), or an editor's commands."""
    if "replacement_text" in arguments or {"start_line", "end_line"} <= arguments.keys():
        text = pick(arguments, ("replacement_text", *TEXT, *NEW))
        first, last = as_integer(arguments.get("start_line")), as_integer(arguments.get("end_line"))
        if not isinstance(text, str) or first is None or last is None:
            return _missing("no lines, or no text")
        path = pick(arguments, PATH)
        return (Edit("lines", path if isinstance(path, str) else "", text, first=first, last=last),)
    if {"search", "replace"} <= arguments.keys() and pick(arguments, PATH) is None:
        return _replace(arguments, "")
    return _editor(arguments)


def _replace_or_write(arguments: Arguments) -> Reading:
    if "edits" in arguments:
        return _several(arguments)
    if pick(arguments, OLD) is not None:
        path = _path(arguments)
        return path if isinstance(path, Difference) else _replace(arguments, path)
    if pick(arguments, PATCH) is not None:
        return _patch(arguments)
    return _write(arguments)


def _several(arguments: Arguments) -> Reading:
    path, parts = _path(arguments), arguments.get("edits")
    if isinstance(path, Difference):
        return path
    if not isinstance(parts, list) or not parts:
        return _missing("no edits")
    if len(parts) > MOST_PARTS:
        return None
    replacements: tuple[Replacement, ...] = ()
    for part in parts:
        read = _replacement(part) if isinstance(part, dict) else _missing("an edit is no object")
        if isinstance(read, Difference):
            return read
        replacements += (read,)
    return (Edit("replace", path, replacements=replacements),)


def _patch(arguments: Arguments) -> Reading:
    text = pick(arguments, PATCH)
    if isinstance(text, list) and len(text) <= MOST_PARTS and all(isinstance(part, str) for part in text):
        text = "\n".join(text)
    if not isinstance(text, str) or not text.strip():
        return _missing("no patch")
    path = pick(arguments, PATH)
    return patch_edits(text, path if isinstance(path, str) else "")


def patch_edits(text: str, path: str = "") -> tuple[Edit, ...] | None:
    """The edits of a patch, or of SEARCH / REPLACE blocks for the file `path`; None where it is neither."""
    if path and (blocks := read_blocks(text)):
        if len(blocks) > MOST_PARTS:
            return None
        return (Edit("replace", path, replacements=tuple(Replacement(old, new) for old, new in blocks)),)
    files = read_patch(text)
    if files is None or len(files) > MOST_PARTS:
        return None
    if path and len(files) == 1:
        return (_edit_of(files[0], path),)
    return tuple(_edit_of(file, file.path) for file in files)


def _edit_of(file: FilePatch, path: str) -> Edit:
    if file.kind == "create":
        lines = [line for hunk in file.hunks for line in hunk.new]
        return Edit("write", path, "".join(line + "\n" for line in lines))
    if file.kind == "delete":
        return Edit("delete", path)
    return Edit("patch", path, hunks=file.hunks, moved_to=file.moved_to)


_NAMES: dict[Callable[[Arguments], Reading], str] = {
    _commanded: "str_replace_editor str_replace_based_edit_tool",
    _editor: "text_editor edit_file editfile file_editor code_editor"
    " file_edit modify modify_file update_file str_replace string_replace search_replace replace_in_file replace",
    _edit: "edit",
    _several: "multi_edit",
    _write: "write write_file write_to_file create_file save_file new_file",
    _create: "create",
    _patch: "apply_patch apply_diff patch_file apply_changes",
    _open_file_insert: "insert",
}
"""The usual names of each shape; case, `_` and `-` do not count."""
_READERS = {tool_key(name): reader for reader, names in _NAMES.items() for name in names.split()}
