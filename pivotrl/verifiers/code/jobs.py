"""What a software engineer's call does, whatever its tool is called, and whether two calls do the same."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from pivotrl.trajectories.faults import excerpt
from pivotrl.verifiers.base import Difference
from pivotrl.verifiers.code.edits import Edit
from pivotrl.verifiers.code.effects import Known, compare_edits
from pivotrl.verifiers.code.paths import same_path
from pivotrl.verifiers.code.reads import Read, compare_reads, read_in_shell, read_of
from pivotrl.verifiers.code.searches import FOLDER, Search, compare_searches, search_in_shell, search_of
from pivotrl.verifiers.code.shapes import NEW, OLD, PATCH, PATH, TEXT, Arguments, is_editor, pick, read_edits, tool_key
from pivotrl.verifiers.code.source import compare as compare_source
from pivotrl.verifiers.robust.schema import parameters_of, properties_of, resolve
from pivotrl.verifiers.robust.values import Compare, compare_arguments
from pivotrl.verifiers.robust.wellformed import is_blank
from pivotrl.verifiers.shell.compare import compare as compare_commands
from pivotrl.verifiers.tool_categories import UNKNOWN, category

COMMANDS = ("command", "cmd", "script", "bash_command", "shell_command", "code", "input")
"""Usual names of the argument that holds a shell's command."""
FREE = {"security_risk", "timeout", "timeout_seconds", "description", "explanation", "thought", "reasoning", "summary"}
"""Arguments that say why a call is made, or how long it may take, and not what it does."""
_PATHS = {*PATH, *FOLDER}
_ONE_OF = (PATH, TEXT, OLD, NEW, PATCH, COMMANDS, ("new_str", "insert_text", "text"))
"""Names of one thing: a tool knows one of them."""


@dataclass(frozen=True)
class Job:
    """`kind`: a key of `tool_categories.NAMES`, or the tool's own name. What is known of it is in the other fields."""

    kind: str
    edits: tuple[Edit, ...] = ()
    read: Read | None = None
    search: Search | None = None
    command: str = ""


def job_of(name: str, arguments: Arguments) -> Job | Difference:
    """What a call does; why it can do nothing (`missing_argument`, `other_range`)."""
    edits = read_edits(name, arguments)
    if edits is not None:
        return edits if isinstance(edits, Difference) else Job("edit", edits)
    read = read_of(name, arguments)
    if read is not None:
        return read if isinstance(read, Difference) else Job("read", read=read)
    kind = category(tool_key(name))
    if kind == "bash":
        command = pick(arguments, COMMANDS)
        if not isinstance(command, str) or is_blank(command):
            return Difference("missing_argument", "no command")
        return Job("bash", read=read_in_shell(command), search=search_in_shell(command), command=command)
    if kind == "think" and not any(isinstance(value, str) and not is_blank(value) for value in arguments.values()):
        return Difference("missing_argument", "no thought")
    search = search_of(name, arguments)
    if search is not None:
        return Job("search", search=search)
    return Job(kind if kind in ("think", "finish", "planning", "edit") else tool_key(name))


def compare_jobs(
    wanted: dict, expected: Arguments, call: dict, actual: Arguments, tools: list, known: Known, planning: str
) -> Difference | None:
    """Why the model's call does not do the expert's job; None where it does.

    Args:
        wanted, expected: the expert's call, and its arguments.
        call, actual: the model's; the call has a name, and its arguments are an object.
        tools: the turn's.
        known: what the history shows of files, and of the working directory.
        planning: `kind`: any plan will do; `equal`: the expert's items.
    """
    name, same_name = call["name"], call["name"] == wanted["name"]
    if same_name and _equal(expected, actual):
        return None
    if (fault := _schema_fault(name, actual, expected if same_name else {}, tools, same_name)) is not None:
        return fault
    job, found = job_of(wanted["name"], expected), job_of(name, actual)
    if isinstance(found, Difference):
        return found
    if isinstance(job, Difference):
        # The expert's own call is odd: as values it may still be matched.
        return _compare_values(wanted, expected, call, actual, tools, known.cwd)
    if job.read and found.read and "read" in (job.kind, found.kind):
        return compare_reads(job.read, found.read, known.cwd)
    if job.search and found.search and job.kind != found.kind:
        return compare_searches(job.search, found.search, known.cwd)
    if job.kind != found.kind:
        return Difference("other_tool", f"{excerpt(name)}, expected {excerpt(wanted['name'])}")
    if job.edits or found.edits:
        if not (job.edits and found.edits):
            return Difference("other_edit", f"{excerpt(name)} of another form, expected {excerpt(wanted['name'])}")
        return compare_edits(job.edits, found.edits, known)
    if job.kind == "bash":
        return _compare_shell(job, expected, found, actual, known.cwd)
    if job.kind in ("think", "finish"):
        return None
    if job.kind == "planning" and planning == "kind":
        return _compare_plans(expected, actual)
    if job.search and found.search and (not same_name or (job.search.bare and found.search.bare)):
        return compare_searches(job.search, found.search, known.cwd)
    return _compare_values(wanted, expected, call, actual, tools, known.cwd)


def _equal(expected: Any, actual: Any) -> bool:
    try:
        return expected == actual and repr(expected) == repr(actual)  # 1 is not True
    except RecursionError:
        return False


def _schema_fault(name: str, actual: Arguments, expected: Arguments, tools: list, same: bool) -> Difference | None:
    """What the tool would refuse: there is no such tool, an argument that it does not know, or one left out that it
    requires. What the expert did too is let pass."""
    if same and is_editor(name) and isinstance(expected.get("command"), str) and actual.get("command") is None:
        return Difference("missing_argument", "command")
    schema = parameters_of(tools, name)
    if schema is None:
        if same and (other := _other_name(expected, actual)) is not None:
            return Difference("unknown_argument", excerpt(other))
        known = same or not tools or any(_name_of(tool) == name for tool in tools)
        return None if known else Difference("other_tool", f"there is no tool {excerpt(name)}")
    schema = resolve(schema, schema, actual)
    properties, required = properties_of(schema), schema.get("required")
    unknown = next((key for key in actual if properties and key not in properties and key not in expected), None)
    if unknown is not None:
        return Difference("unknown_argument", excerpt(unknown))
    for key in required if isinstance(required, list) else ():
        if isinstance(key, str) and actual.get(key) is None and (not expected or key in expected):
            return Difference("missing_argument", excerpt(key))
    return None


def _other_name(expected: Arguments, actual: Arguments) -> str | None:
    """An argument that the tool calls otherwise, as the expert's call shows where there is no schema."""
    for key in actual:
        if key not in expected and any(key in names and any(name in expected for name in names) for names in _ONE_OF):
            return key
    return None


def _name_of(tool: Any) -> Any:
    function = tool.get("function", tool) if isinstance(tool, dict) else None
    return function.get("name") if isinstance(function, dict) else None


def _compare_shell(
    expected: Job, wanted: Arguments, actual: Job, found: Arguments, cwd: str | None
) -> Difference | None:
    difference = compare_commands(expected.command, actual.command, cwd=cwd)
    if difference is not None and expected.read and actual.read:
        difference = compare_reads(expected.read, actual.read, cwd)
    if difference is not None and expected.search and actual.search:
        difference = compare_searches(expected.search, actual.search, cwd)
    if difference is not None:
        detail = f"{difference.reason}: {difference.detail}"
        return Difference("other_command", detail.removeprefix("other_command: "))
    ignored = FREE | set(COMMANDS)
    left, right = ({key: value for key, value in given.items() if key not in ignored} for given in (wanted, found))
    return compare_arguments(_without_defaults(left), _without_defaults(right))


def _without_defaults(arguments: Arguments) -> Arguments:
    """A shell's switches are off unless they are given."""
    return {key: value for key, value in arguments.items() if value not in (None, False, "", "false", "False")}


def _compare_plans(expected: Arguments, actual: Arguments) -> Difference | None:
    """Any plan, but a look at the plan is none, and what the expert gives is given."""
    if expected.get("command") != actual.get("command"):
        return Difference("other_value", f"command {excerpt(actual.get('command'))}")
    if not any(expected.values()) and (extra := next((key for key in actual if actual[key] and key not in FREE), None)):
        return Difference("other_value", f"{excerpt(extra)}: the expert's changes no plan")
    key = next((key for key, value in expected.items() if value and not actual.get(key) and key not in FREE), None)
    return None if key is None else Difference("missing_argument", excerpt(key))


def _compare_values(
    wanted: dict, expected: Arguments, call: dict, actual: Arguments, tools: list, cwd: str | None
) -> Difference | None:
    """Arguments as values: paths as paths, other text exactly, the rest by the schema."""
    if call["name"] != wanted["name"]:
        return Difference("other_tool", f"{excerpt(call['name'])}, expected {excerpt(wanted['name'])}")
    python = "python" in tool_key(wanted["name"])
    kinds: Mapping[str, Compare] = {
        key: partial(_compare_paths, cwd)
        if key in _PATHS
        else _compare_python
        if python and key == "code"
        else _compare_exactly
        for key, value in expected.items()
        if isinstance(value, str)
    }
    # What an unknown tool is told under such a name may be all that it does.
    free = FREE if category(tool_key(wanted["name"])) != UNKNOWN else {"security_risk"}
    left, right = ({key: value for key, value in given.items() if key not in free} for given in (expected, actual))
    return compare_arguments(left, right, parameters_of(tools, call["name"]), kinds=kinds)


def _compare_paths(cwd: str | None, expected: Any, actual: Any) -> Difference | None:
    if same_path(expected, actual, cwd):
        return None
    return Difference("other_target", f"{excerpt(actual)}, expected {excerpt(expected)}")


def _compare_python(expected: Any, actual: Any) -> Difference | None:
    if isinstance(actual, str) and is_blank(actual):
        return _compare_exactly(expected, actual)
    return compare_source(expected, actual, "python")


def _compare_exactly(expected: Any, actual: Any) -> Difference | None:
    if isinstance(actual, str) and expected.strip() == actual.strip():
        return None
    if actual is None or (isinstance(actual, str) and is_blank(actual)):
        return Difference("missing_argument", f"expected {excerpt(expected)}")
    return Difference("other_value", f"{excerpt(actual)}, expected {excerpt(expected)}")
