"""A verifier's parameters: defaults, overridden by the run, overridden by a row."""

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
            first = error.errors()[0]
            key = ".".join(str(part) for part in first["loc"])
            known = ", ".join(self._kind.model_fields) or "none"
            raise ValueError(f"verifier.params.{key}: {first['msg']}; the parameters are: {known}") from None
