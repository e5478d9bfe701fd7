import json

import pytest

from pivotrl.verifiers.attempt import Attempt
from pivotrl.verifiers.base import VerifierConfig
from pivotrl.verifiers.registry import build_verifier


def call(arguments, name="search"):
    return {"type": "function_call", "name": name, "arguments": json.dumps(arguments)}


def reward(expected, actual, preset=None, **params):
    verifier = build_verifier(VerifierConfig(name="search", preset=preset, params=params))
    return verifier.verify(Attempt(call(expected), [call(actual)])).reward


def test_the_threshold_is_the_released_searchs():
    three_of_ten = {"query": "one two three four five"}, {"query": "one two three six seven"}
    two_of_ten = {"query": "one two three four five"}, {"query": "one two six seven eight"}
    assert reward(*three_of_ten) == 1
    assert reward(*two_of_ten) == 0
    assert reward(*two_of_ten, word_count_similarity_threshold=0.1) == 1
    assert reward(*three_of_ten, word_count_similarity_threshold=0.31) == 0


def test_a_rows_parameters_override_the_default():
    verifier = build_verifier(VerifierConfig(name="search"))
    attempt = Attempt(call({"query": "one two three four five"}), [call({"query": "one six seven eight nine"})])
    assert verifier.verify(attempt).reward == 0
    assert verifier.verify(attempt, {"word_count_similarity_threshold": 0.1}).reward == 1


@pytest.mark.parametrize(
    "expected, actual, right",
    [
        ({"query": "weather in Paris"}, {"query": "paris weather"}, 1),
        ({"query": "weather in Paris"}, {"query": "weather in London"}, 0),
        ({"q": "weather in Paris"}, {"q": ["weather"]}, 0),
        ({"queries": ["a b", "c d"]}, {"queries": ["d c", "a b"]}, 1),
        ({"queries": ["a b", "c d"]}, {"queries": ["a b"]}, 0),
        ({"url": "https://example.org:443/a"}, {"url": "HTTPS://EXAMPLE.org/a"}, 1),
        ({"url": "https://example.org/a"}, {"url": "https://example.org/b"}, 0),
        ({"urls": ["https://example.org/a", "https://example.org/b"]}, {"urls": ["https://example.org/b"]}, 0),
        ({"urls": ["https://example.org:443/a", "b.org/"]}, {"urls": ["b.org", "https://EXAMPLE.org/a"]}, 1),
        ({"query": "weather in Paris", "n": 5}, {"n": 5, "query": "paris weather"}, 1),
        ({"query": "weather in Paris", "n": 5}, {"n": 6, "query": "paris weather"}, 0),
    ],
)
def test_robust_reads_queries_and_addresses(expected, actual, right):
    assert reward(expected, actual, "robust") == right


def test_robust_adds_the_runs_kinds_to_its_own():
    kinds = {"arguments": {"n": "identifier", "query": "exact"}}
    assert reward({"query": "weather in Paris"}, {"query": "paris weather"}, "robust", **kinds) == 0
    assert reward({"q": "weather in Paris"}, {"q": "paris weather"}, "robust", **kinds) == 1
    with pytest.raises(ValueError, match=r"verifier\.params\.arguments"):
        build_verifier(VerifierConfig(name="search", preset="robust", params={"arguments": ["query"]}))
    with pytest.raises(ValueError, match=r"verifier\.params\.arguments"):
        build_verifier(VerifierConfig(name="search", preset="robust", params={"arguments": {"query": "magic"}}))
