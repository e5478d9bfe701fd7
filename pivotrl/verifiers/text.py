"""`text`: free text that says the same. `text_similarity` is defined in `robust.similarity`, the comparison in
`robust.free_text`."""

from typing import Any

from pydantic import Field

from pivotrl.verifiers.attempt import Attempt
from pivotrl.verifiers.base import Difference
from pivotrl.verifiers.content import ContentParams, ContentVerifier
from pivotrl.verifiers.json_value import compare as compare_json
from pivotrl.verifiers.robust.free_text import compare_text
from pivotrl.verifiers.robust.similarity import DEFAULT_THRESHOLD, text_similarity

__all__ = ["TextVerifier", "compare", "text_similarity"]


def compare(expected: Any, actual: Any) -> Difference | None:
    """Why two texts do not say the same; None where they do. Symmetric. Reasons: see `compare_text`.

    An expert's value that is no text is compared as JSON.
    """
    return _compare(expected, actual, DEFAULT_THRESHOLD)


def _compare(expected: Any, actual: Any, threshold: float) -> Difference | None:
    if not isinstance(expected, str):
        return compare_json(expected, actual)
    return compare_text(expected, actual, threshold)


class TextParams(ContentParams):
    """The parameters of `text`."""

    threshold: float = Field(DEFAULT_THRESHOLD, ge=0, le=1)
    """Similarity that is needed, in [0, 1]; identical text has 1."""


class TextVerifier(ContentVerifier):
    """A message, or one argument of a call, by what it says."""

    PARAMS = TextParams
    ARGUMENTS = (
        "text",
        "message",
        "content",
        "summary",
        "body",
        "answer",
        "thought",
        "description",
        "comment",
        "reason",
    )

    def compare(self, expected: Any, actual: Any, settings: TextParams, attempt: Attempt) -> Difference | None:
        return _compare(expected, actual, settings.threshold)
