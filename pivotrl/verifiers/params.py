"""A verifier's parameters: defaults, overridden by the run, overridden by a row."""

import difflib
from typing import Any, Generic, TypeVar

from pydantic import ValidationError

from pivotrl.schema import Section

MOST_KEPT = 256
"""Different overrides remembered; a file has a handful."""

P = TypeVar("P", bound=Section)


class Overridable(Generic[P]):
    """The parameters of a run, and of any row that has its own."""

    def __init__(self, kind: type[P], run: dict[str, Any]):
        """Raises ValueError for an unknown or unusable parameter."""
        self._kind, self._run = kind, run
        self.default = self._build({})
        self._of_rows: dict[str, P] = {}

    def of_row(self, row: dict[str, Any] | None) -> P:
        """The run's parameters with the row's put over them. Raises ValueError as the constructor does."""
        if not row:
            return self.default
        try:
            key = repr(row)
        except RecursionError:
            raise ValueError("verifier.params: nested too deeply; write plain values") from None
        if key not in self._of_rows:
            if len(self._of_rows) == MOST_KEPT:
                self._of_rows.clear()
            self._of_rows[key] = self._build(row)
        return self._of_rows[key]

    def _build(self, row: dict[str, Any]) -> P:
        try:
            return self._kind(**{**self._run, **row})
        except ValidationError as error:
            raise ValueError(parameter_fault(self._kind, error)) from None


def parameter_fault(kind: type[Section], error: ValidationError) -> str:
    """One line for the first thing that is wrong with a verifier's parameters: what was found, and what to write."""
    first = error.errors()[0]
    key = ".".join(str(part) for part in first["loc"])
    known = ", ".join(kind.model_fields) or "none"
    if first["type"] != "extra_forbidden" or len(first["loc"]) != 1:
        return f"verifier.params.{key}: {first['msg']}; the parameters are: {known}"
    unknown = f"verifier.params.{key}: Extra inputs are not permitted"
    if hint := _nearest(kind, key):
        return f"{unknown}; {hint}; the parameters are: {known}"
    return f"{unknown}; the parameters are: {known}"


def _nearest(kind: type[Section], key: str) -> str:
    """Which parameter was probably meant: one of this verifier's of nearly the name, or of another preset's."""
    from pivotrl.verifiers.reference import related  # which imports this module

    others = related(kind)
    if key in others:
        return f"{key} is a parameter of {others[key]}"
    for names in (list(kind.model_fields), list(others)):
        if near := difflib.get_close_matches(key, names, n=1, cutoff=0.6):
            where = "" if near[0] in kind.model_fields else f", a parameter of {others[near[0]]}"
            return f"did you mean {near[0]}{where}?"
    return ""
