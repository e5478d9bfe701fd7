"""Pictures of untrusted values for a verdict's detail: short, whatever their size and nesting."""

from typing import Any

from pivotrl.trajectories.faults import excerpt
from pivotrl.verifiers.base import Difference

_LONGEST = 60


def shown(value: Any) -> str:
    """A scalar as it is, shortened; of a list or an object only its size."""
    if isinstance(value, str):
        return excerpt(value[: _LONGEST + 1])
    if isinstance(value, dict):
        return f"an object of {len(value)} keys"
    if isinstance(value, list):
        return f"a list of {len(value)} items"
    if isinstance(value, int) and value.bit_length() > 256:
        return f"an integer of {value.bit_length()} bits"
    return excerpt(value)


def other(expected: Any, actual: Any, reason: str = "other_value") -> Difference:
    """The difference between two values."""
    return Difference(reason, f"{shown(actual)}, expected {shown(expected)}")


def at(place: str, difference: Difference) -> Difference:
    """The difference, with the key or index where it was found in front."""
    return Difference(difference.reason, f"{place if place.startswith('[') else shown(place)}: {difference.detail}")
