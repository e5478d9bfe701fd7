"""What is kept of a row's own metadata."""

import json
from typing import Any

LARGEST_VALUE = 10_000
"""Characters of a value's JSON: every turn of a trajectory carries its metadata, and so does every pivot."""


def small(metadata: Any) -> dict[str, Any]:
    """The entries of a row's `metadata` whose values are no longer than LARGEST_VALUE (patches, logs and whole configs
    are left out), and no null ones; empty where it is no object."""
    if not isinstance(metadata, dict):
        return {}
    return {
        key: value
        for key, value in metadata.items()
        if value is not None and len(value if isinstance(value, str) else json.dumps(value)) <= LARGEST_VALUE
    }
