"""`search_query`: do two queries ask a search engine for the same?

Read as `search_syntax` describes, two queries are equivalent when

- their quoted phrases, operators, exclusions, OR groups, numbers and URLs are equal (in any order), and both or neither
  negate something;
- the words that capitals mark as names on one side are there on the other;
- of their plain words, in any order and however often, the F1 of the shared ones reaches the threshold; one side may
  have words more than the other, but no word stands in for another, because lower-case names cannot be told from other
  words (`hotels paris`, `hotels london`);
- what `from`, `to`, `of`, ... bind, and the number behind a word, has not changed places.

A query that is a URL compares as one, and a list of queries as a set.
"""

from functools import lru_cache
from itertools import permutations
from typing import Any

from pydantic import Field

from pivotrl.trajectories.faults import excerpt
from pivotrl.verifiers import url
from pivotrl.verifiers.attempt import Attempt
from pivotrl.verifiers.base import Difference
from pivotrl.verifiers.content import ContentParams, ContentVerifier
from pivotrl.verifiers.matching import maximum_matching
from pivotrl.verifiers.search_syntax import Query, parse
from pivotrl.verifiers.search_words import OPPOSED, fold

LONGEST_QUERY = 4000
"""Characters; no search engine takes as many."""
MOST_QUERIES = 64
"""Queries of one list that are compared, each with each."""
THRESHOLD = 0.8


class SearchQueryParams(ContentParams):
    """Parameters of `search_query`."""

    threshold: float = Field(THRESHOLD, ge=0, le=1)
    """F1 of the shared plain words that is enough; 1: the same words."""
    replaced_words: bool = False
    """Let a word stand in for another where the F1 allows it."""


class SearchQueryVerifier(ContentVerifier):
    """See the module's docstring."""

    PARAMS = SearchQueryParams
    ARGUMENTS = (
        *("query", "q", "search_query", "queries", "search_queries", "keywords", "keyword", "search_term"),
        *("search_terms", "search", "text", "url", "urls", "link"),
    )

    def compare(self, expected: Any, actual: Any, settings: SearchQueryParams, attempt: Attempt) -> Difference | None:
        return compare(expected, actual, settings.threshold, settings.replaced_words)


def compare(
    expected: Any, actual: Any, threshold: float = THRESHOLD, replaced_words: bool = False
) -> Difference | None:
    """None where both ask for the same.

    Args:
        expected: a query, or a list of queries.
        actual: untrusted.
        threshold: F1 of the shared plain words that is enough.
        replaced_words: let a word stand in for another where the F1 allows it.
    """
    if isinstance(expected, str) and isinstance(actual, str):
        return _compare_queries(expected, actual, threshold, replaced_words)
    if not _are_queries(expected) or not _are_queries(actual):
        return Difference("other_type", f"{excerpt(actual)} where the expert has {excerpt(expected)}")
    wanted, found = list(dict.fromkeys(expected)), list(dict.fromkeys(actual))
    if len(wanted) != len(found):
        return Difference("other_list_length", f"{len(found)} queries instead of {len(wanted)}")
    if len(wanted) > MOST_QUERIES:
        return None if set(wanted) == set(found) else Difference("too_long", f"more than {MOST_QUERIES} queries")
    fits = [
        [index for index, text in enumerate(found) if not _compare_queries(query, text, threshold, replaced_words)]
        for query in wanted
    ]
    pairs = maximum_matching(fits)
    missing = next((query for index, query in enumerate(wanted) if index not in pairs), None)
    return None if missing is None else Difference("other_value", f"no query asks for {excerpt(missing)}")


def _are_queries(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


def _compare_queries(expected: str, actual: str, threshold: float, replaced_words: bool) -> Difference | None:
    expected, actual = expected.strip(), actual.strip()
    if expected == actual:
        return None
    if max(len(expected), len(actual)) > LONGEST_QUERY:
        return Difference("too_long", f"a query of {len(actual)} characters; {LONGEST_QUERY} are compared")
    if _is_url(expected) and _is_url(actual):
        return url.compare(expected, actual)
    fault = _fault(_parsed(expected), _parsed(actual), threshold, replaced_words)
    if fault == "":
        # Nothing but words that say nothing alone: "to be" is not "it has".
        fault = "" if fold(expected).split() == fold(actual).split() else "other words"
    return Difference("other_value", f"{fault}: {excerpt(actual)} is not {excerpt(expected)}") if fault else None


_parsed = lru_cache(maxsize=4 * MOST_QUERIES)(parse)
"""Each query of a list is compared with each, and the K samples of a turn with one. What it returns is not changed."""


def _is_url(text: str) -> bool:
    return text.startswith(("http://", "https://", "www.")) and not any(letter.isspace() for letter in text)


def _fault(expected: Query, actual: Query, threshold: float, replaced_words: bool) -> str | None:
    """What differs; None where nothing does, and an empty text where there is nothing to tell them apart by."""
    for kind in sorted({element[0] for element in expected.exact ^ actual.exact}):
        return f"other {kind}"
    if expected.phrases != actual.phrases:
        return "other phrase"
    if not expected.names <= actual.words or not actual.names <= expected.words:
        return "other name"
    if _moved(expected, actual):
        return "moved"
    wanted, found = expected.terms, actual.terms
    if not wanted and not found:
        return None if expected.exact - {("negation",)} or expected.phrases else ""
    if not replaced_words and wanted - found and found - wanted:
        return "other words"
    return None if 2 * len(wanted & found) >= threshold * (len(wanted) + len(found)) else "other words"


def _moved(expected: Query, actual: Query) -> bool:
    """Whether a link binds, on one side, what the other side has elsewhere, or binds by an opposed link."""
    for link in expected.links.keys() & actual.links.keys():
        wanted, found = expected.links[link], actual.links[link]
        if wanted.isdisjoint(found) and (found & _bindable(expected) or wanted & _bindable(actual)):
            return True
    for link, other in permutations(OPPOSED, 2):
        wanted = expected.links.get(link, set()) - expected.links.get(other, set())
        if wanted & actual.links.get(other, set()) - actual.links.get(link, set()):
            return True
    return False


def _bindable(query: Query) -> set[str]:
    return query.terms | {element[1] for element in query.exact if element[0] == "number"}
