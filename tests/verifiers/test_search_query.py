import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pivotrl.verifiers.attempt import Attempt
from pivotrl.verifiers.base import VerifierConfig
from pivotrl.verifiers.registry import build_verifier
from pivotrl.verifiers.search_query import LONGEST_QUERY, compare

SAME = [
    ("population of France 2023", "france population 2023"),
    ("What is the capital of France?", "capital of france"),
    ("how to install python", "install python"),
    ("best running shoes", "best running shoe"),
    ("cities in Italy", "italy city"),
    ("state-of-the-art parsers", "state of the art parser"),
    ("covid-19 vaccine", "covid 19 vaccines"),
    ("gpt-4 context length", "GPT4 context length"),
    ("Beyonc\u00e9 albums", "beyonce albums"),
    ("\u201cNew York\u201d hotels", '"new  york" hotel'),
    ("cats AND dogs", "cats dogs"),
    ("cats OR dogs food", "dogs | cats food"),
    ("(cats OR dogs) food", "food (dogs OR cats)"),
    ("a OR b OR c x1", "(c OR (b OR a)) x1"),
    ("jaguar -car", "jaguar NOT car"),
    ("site:https://www.example.org/ tutorial", "tutorial site:example.org"),
    ("report ext:.pdf", "report filetype:PDF"),
    ("earthquake after:2024/01/05", "after:2024-1-5 earthquakes"),
    ("1,000,000 digits of pi", "digits of pi 1000000"),
    ("U.S. unemployment rate", "us unemployment rate"),
    ("learn learn rust", "rust learn"),
    ("Einstein's theory", "einstein theory"),
    ("\uff50\uff59\uff54\uff48\uff4f\uff4e docs", "python docs"),
    ("python asyncio gather exceptions", "python asyncio gather exceptions example"),
    ("https://example.org/a?b=1&a=2", "http://www.example.org/a?a=2&b=1"),
    ("the who", "The Who"),
    ("cats vs dogs", "dogs versus cats"),
    ("laptops below 1000", "laptop under 1000"),
    ("movies in 1990", "1990 movies"),
    ("git commit --amend", "git commit amend"),
    ("\u6771\u4eac \u5929\u6c17", "\u5929\u6c17 \u6771\u4eac"),
]
OTHER = [
    ("hotels paris", "hotels london"),
    ("restaurants open late tonight paris", "restaurants open late tonight london"),
    ("restaurants open late tonight in Paris", "restaurants open late tonight"),
    ("population of france 2023", "population of france 2022"),
    ("population of france 2023", "population of france"),
    ("flights from paris to london", "flights from london to paris"),
    ("convert usd to eur", "convert eur to usd"),
    ("laptop under 1000", "laptop over 1000"),
    ("laptop under 1000", "laptop 1000"),
    ("movies before christmas", "movies after christmas"),
    ("flights to oslo", "flights from oslo"),
    ("history of art", "art of history"),
    ("python 3 django 4", "python 4 django 3"),
    ("foods with gluten", "foods without gluten"),
    ("is it safe to swim", "is it not safe to swim"),
    ("why can cats fly", "why can't cats fly"),
    ("when was lincoln born", "where was lincoln born"),
    ('"climate change" report', "climate change report"),
    ('"climate change" report', '"change climate" report'),
    ('"a b" "a b" c', '"a b" c'),
    ("site:example.org tutorial", "site:example.com tutorial"),
    ("site:example.org tutorial", "tutorial"),
    ("site:example.org tutorial", "-site:example.org tutorial"),
    ('intitle:"annual report" acme', 'intitle:"report annual" acme'),
    ("jaguar -car", "jaguar car"),
    ("jaguar -car", "jaguar"),
    ("cats OR dogs food", "cats dogs food"),
    ("(a1 OR b1) c1", "a1 OR (b1 c1)"),
    ("-(a b) c", "(a b) c"),
    ("earthquake after:2024-01-05", "earthquake after:2024-05-01"),
    ("earthquake 2024-01-05", "earthquake 2024-05-01"),
    ("c++ tutorial", "c tutorial"),
    ("c# tutorial", "c tutorial"),
    (".net tutorial", "net tutorial"),
    ("phones under $100", "phones under \u20ac100"),
    ("python 3.1 docs", "python 3.10 docs"),
    ("World War I", "World War II"),
    ("henry vii", "henry viii"),
    ("speed of a jaguar", "speed of a Jaguar XJ"),
    ("latest news", "latest new"),
    ("to be or not to be", "to have or not to have it"),
    ("what is it", "who is it"),
    ("word", ""),
    ("https://example.org/a", "https://example.org/b"),
    ("https://example.org/a", "example a"),
]


@pytest.mark.parametrize("expected,actual", SAME)
def test_same_question(expected, actual):
    assert compare(expected, actual) is None
    assert compare(actual, expected) is None


@pytest.mark.parametrize("expected,actual", OTHER)
def test_other_question(expected, actual):
    assert compare(expected, actual).reason == "other_value"
    assert compare(actual, expected).reason == "other_value"


def test_threshold_and_replaced_words():
    longer = "python asyncio gather exceptions example"
    assert compare("python asyncio gather exceptions", longer, threshold=1) is not None
    assert compare("asyncio gather", longer) is not None
    assert compare("asyncio gather", longer, threshold=0.5) is None
    assert compare("good cheap quick dinner recipe", "good cheap fast dinner recipe") is not None
    assert compare("good cheap quick dinner recipe", "good cheap fast dinner recipe", replaced_words=True) is None


def test_lists_are_sets_by_matching():
    assert compare(["cat food", "dog toys"], ["toys dog", "food cat"]) is None
    assert compare(["cat food", "cat food"], ["cat food"]) is None
    assert compare(["cat food", "dog toys"], ["cat food"]).reason == "other_list_length"
    assert compare(["cat food", "dog toys"], ["cat food", "dog food"]).reason == "other_value"
    # The first fits both, so that taking the first fit would leave the second without one.
    assert compare(["a1 bb cc dd", "a1 bb cc dd ee"], ["a1 bb cc dd ee ff", "a1 bb cc dd"]) is None
    assert compare([str(index) for index in range(99)], [str(index) for index in range(1, 100)]).reason == "too_long"


@pytest.mark.parametrize("actual", [None, 1, True, {"query": "x"}, [1], [["cat"]], ["cat"], float("nan")])
def test_what_is_no_query(actual):
    assert compare("cat", actual).reason == "other_type"


def test_the_verifier_finds_the_argument():
    verifier = build_verifier(VerifierConfig(name="search_query"))

    def call(**arguments):
        return {"type": "function_call", "name": "web_search", "arguments": json.dumps(arguments)}

    expert = call(query="population of France 2023", num_results=5)
    assert verifier.verify(Attempt(expert, [call(query="france population 2023", num_results=5)])).reward == 1
    assert verifier.verify(Attempt(expert, [call(query="france population 2022", num_results=5)])).reward == 0
    assert verifier.verify(Attempt(expert, [call(query="france population 2023", num_results=9)])).reward == 0
    assert verifier.verify(Attempt(expert, [call(num_results=5)])).reward == 0
    assert verifier.verify(Attempt(expert, [call(query=expert["arguments"], num_results=5)])).reward == 0
    loose = {"replaced_words": True, "threshold": 0.5}
    expert, actual = call(query="cheap hotels paris"), [call(query="cheap hotels london")]
    assert verifier.verify(Attempt(expert, actual)).reward == 0
    assert verifier.verify(Attempt(expert, actual), loose).reward == 1


SYNTAX = st.sampled_from([*"\"()|-+:.'$%\u201c\ud800\u0301\u00df", " OR ", " NOT ", "site:", "not ", " to ", "19", "A"])


@given(st.lists(SYNTAX | st.text(st.characters(codec=None, exclude_categories=()), max_size=3), max_size=30))
def test_nothing_raises_and_a_query_equals_itself(pieces):
    text = "".join(pieces)
    assert compare(text, text) is None
    assert compare(text, f" {text}  ") is None
    assert compare(f"{text} and", text + " and ") is None
    assert (compare(text, text[::-1]) is None) == (compare(text[::-1], text) is None)


def test_long_queries_are_judged_soon():
    start = time.process_time()
    units = [
        "(",
        ")",
        '"',
        '"a" ',
        "-",
        "a ",
        "1",
        "1,",
        "1.",
        "a1",
        "a|",
        "a OR ",
        "(a OR ",
        "-(",
        "\u0301",
        "\ufdfa",
        "'",
        "$",
    ]
    for unit in units:
        text = (unit * LONGEST_QUERY)[:LONGEST_QUERY]
        assert compare(text, "cat") is not None
        compare(text, text[:-1])
    assert compare("cat", "cat " * 2_500_000).reason == "too_long"
    assert time.process_time() - start < 4


def test_a_list_reads_each_query_once():
    start = time.process_time()
    lists = [[f"{'a OR ' * 750}{side}{index}" for index in range(64)] for side in "xy"]
    assert compare(*lists).reason == "other_value"
    assert time.process_time() - start < 10, "half a minute where each pair is read anew"
