"""A call's arguments as values: the expert's, which were checked, and the model's, which may be anything."""

import json
from functools import lru_cache
from typing import Any

LONGEST_ARGUMENTS = 1_000_000
"""Characters of one call's arguments that are read; more than any completion holds that did not run away."""
MALFORMED = object()
"""Stands for arguments that are not JSON."""


def parse_actual(call: dict[str, Any]) -> Any:
    """The value of a model's arguments (an object or any other JSON value), or MALFORMED."""
    arguments = call.get("arguments")
    if not isinstance(arguments, str) or len(arguments) > LONGEST_ARGUMENTS:
        return MALFORMED
    try:
        return json.loads(arguments)
    except (ValueError, RecursionError):
        return MALFORMED


@lru_cache(maxsize=4096)
def parse_expected(arguments: str) -> dict[str, Any]:
    """Checked when the expert's row was read, so that it parses; shared by the K samples of a turn, and never
    changed."""
    return json.loads(arguments)
