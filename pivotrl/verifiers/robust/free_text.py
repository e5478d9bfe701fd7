"""Free text by what it says."""

from typing import Any

from pivotrl.verifiers.base import Difference
from pivotrl.verifiers.robust.shown import other
from pivotrl.verifiers.robust.similarity import DEFAULT_THRESHOLD, text_similarity


def compare_text(expected: Any, actual: Any, threshold: float = DEFAULT_THRESHOLD) -> Difference | None:
    if not isinstance(expected, str) or not isinstance(actual, str):
        return None if expected == actual else other(expected, actual, "other_type")
    return None if text_similarity(expected, actual) >= threshold else other(expected, actual)
