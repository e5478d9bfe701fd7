"""A verifier's parameters: defaults, overridden by the run, overridden by a row."""

import json
from functools import lru_cache
from typing import Any, Generic, TypeVar

from pydantic import ValidationError

from pivotrl.schema import Section

P = TypeVar("P", bound=Section)


class Overridable(Generic[P]):
    """The parameters of a run, and of any row that has its own."""

    def __init__(self, kind: type[P], run: dict[str, Any]):
        """Raises ValueError for an unknown or unusable parameter."""
        self._kind, self._run = kind, run
        self.default = self._build({})
        self._cached = lru_cache(maxsize=256)(lambda text: self._build(json.loads(text)))

    def of_row(self, row: dict[str, Any] | None) -> P:
        """The run's parameters with the row's put over them. Raises ValueError as the constructor does."""
        return self._cached(json.dumps(row, sort_keys=True)) if row else self.default

    def _build(self, row: dict[str, Any]) -> P:
        try:
            return self._kind(**{**self._run, **row})
        except ValidationError as error:
            first = error.errors()[0]
            key = ".".join(str(part) for part in first["loc"])
            known = ", ".join(self._kind.model_fields) or "none"
            raise ValueError(f"verifier.params.{key}: {first['msg']}; the parameters are: {known}") from None
