"""`search`: steps of an agent that searches.

`nemo_gym` is `tool_call` with the threshold of NeMo-Gym's released search configuration (Gym 07d6b0d0); `robust` is the
robust `tool_call` that reads the usual arguments of search tools as what they are: queries by what they ask for, and
addresses by the page that they lead to.
"""

from typing import Any

from pivotrl.verifiers.robust.verifier import RobustVerifier
from pivotrl.verifiers.tool_call import ToolCallVerifier

THRESHOLD = 0.3
"""`word_count_similarity_threshold` of the released search configuration."""
KINDS = {
    **dict.fromkeys(("query", "q", "queries", "search_query", "urls"), "search_query"),
    **dict.fromkeys(("url", "link"), "url"),
}
"""What the arguments of search tools hold, by their usual names. `search_query` compares lists as sets, and what is a
URL in them as one."""


class SearchVerifier(ToolCallVerifier):
    """`tool_call` with another default; its parameters and reasons."""

    def __init__(self, params: dict[str, Any]):
        super().__init__({"word_count_similarity_threshold": THRESHOLD} | params)


class RobustSearchVerifier(RobustVerifier):
    """The robust `tool_call` with its parameters and reasons. The run's `arguments` are put over KINDS; a row's stand
    alone."""

    def __init__(self, params: dict[str, Any]):
        own = params.get("arguments", {})
        super().__init__(params | {"arguments": KINDS | own if isinstance(own, dict) else own})
