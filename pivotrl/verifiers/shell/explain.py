"""The first difference of two canonical forms, for a person."""

from typing import Any

from pivotrl.trajectories.faults import excerpt
from pivotrl.verifiers.base import Difference
from pivotrl.verifiers.shell.forms import Command, Compound, Redirect, Script


def explain(expected: Any, actual: Any) -> Difference:
    """Why two canonical forms that are not equal are not: one of the reasons in docs/verifiers.md."""
    while True:
        if isinstance(expected, Command) and isinstance(actual, Command):
            found = _commands(expected, actual)
        elif isinstance(expected, Script) and isinstance(actual, Script):
            found = _scripts(expected, actual)
        elif isinstance(expected, Compound) and isinstance(actual, Compound):
            found = _compounds(expected, actual)
        else:
            found = _shown("other_command", expected, actual)
        if isinstance(found, Difference):
            return found
        expected, actual = found


def _commands(expected: Command, actual: Command) -> Difference | tuple[Any, Any]:
    if expected.name != actual.name:
        return _shown("other_command", expected.name, actual.name)
    if expected.options != actual.options:
        if expected.options is not None and actual.options is not None:
            wanted = [pair for pair in expected.options if pair not in actual.options]
            found = [pair for pair in actual.options if pair not in expected.options]
            for (option, value), (other, given) in zip(wanted, found):
                if option == other and option in ("e", "filter"):  # a pattern is an operand to whoever reads this
                    return _shown("other_operands", value, given)
            return _shown("other_flags", wanted or expected.options, found or actual.options)
        return _shown("other_flags", expected.options or expected.operands, actual.options or actual.operands)
    if expected.operands != actual.operands:
        nested = _nested(expected.operands, actual.operands)
        if nested:
            return nested
        flags = [word for word in expected.operands if isinstance(word, str) and word[:1] == "-"]
        others = [word for word in actual.operands if isinstance(word, str) and word[:1] == "-"]
        if expected.options is None and flags != others:
            return _shown("other_flags", flags, others)
        return _shown("other_operands", expected.operands, actual.operands)
    if expected.redirects != actual.redirects:
        return _shown("other_redirect", expected.redirects, actual.redirects)
    if expected.environment != actual.environment:
        return _shown("other_environment", expected.environment, actual.environment)
    return _shown("other_directory", expected.directory, actual.directory)


def _scripts(expected: Script, actual: Script) -> Difference | tuple[Any, Any]:
    wanted, found = [form for form, _ in expected.steps], [form for form, _ in actual.steps]
    if len(wanted) != len(found):
        return Difference("other_command", f"{len(wanted)} commands expected, {len(found)} found")
    if wanted != found:
        if set(wanted) == set(found):
            return Difference("other_order", "the same commands in another order")
        return next(pair for pair in zip(wanted, found) if pair[0] != pair[1])
    return _shown("other_order", [end for _, end in expected.steps], [end for _, end in actual.steps])


def _compounds(expected: Compound, actual: Compound) -> Difference | tuple[Any, Any]:
    if expected.kind != actual.kind:
        return _shown("other_command", expected.kind, actual.kind)
    if expected.parts != actual.parts:
        if len(expected.parts) == len(actual.parts):
            if expected.kind == "|" and set(expected.parts) == set(actual.parts):
                return Difference("other_order", "the same stages in another order")
            return next(pair for pair in zip(expected.parts, actual.parts) if pair[0] != pair[1])
        return _shown("other_command", expected.parts, actual.parts)
    return _shown("other_redirect", expected.redirects, actual.redirects)


def _nested(expected: tuple[Any, ...], actual: tuple[Any, ...]) -> tuple[Any, Any] | None:
    """The commands among operands that differ, where nothing else does."""
    if len(expected) != len(actual):
        return None
    differing = [pair for pair in zip(expected, actual) if pair[0] != pair[1]]
    if len(differing) == 1 and all(isinstance(form, Command | Script) for form in differing[0]):
        return differing[0]
    return None


def _shown(reason: str, expected: Any, actual: Any) -> Difference:
    return Difference(reason, f"expected {excerpt(_readable(expected))}, found {excerpt(_readable(actual))}")


def _readable(form: Any) -> Any:
    """Redirections as they are written; other forms as they are."""
    if isinstance(form, tuple) and form and all(isinstance(part, Redirect) for part in form):
        return " ".join(f"{part.descriptor}{part.operator}{part.target}" for part in form)
    return form
