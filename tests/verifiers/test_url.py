import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pivotrl.verifiers.url import LONGEST_URL, canonical, compare

SAME = [
    ("http://example.org", "https://EXAMPLE.org/"),
    ("http://example.org:80/a", "https://www.example.org:443/a"),
    ("example.org/a", "https://example.org/a"),
    ("www.example.org", "https://example.org."),
    ("https://example.org/a/./b/../c", "https://example.org/a/c"),
    ("https://example.org/a/..", "https://example.org"),
    ("https://example.org/../../a", "https://example.org/a"),
    ("https://example.org/%7eme/%C3%A9", "https://example.org/~me/\u00e9"),
    ("https://example.org/a%2fb", "https://example.org/a%2Fb"),
    ("https://example.org/?b=2&a=1", "https://example.org/?a=1&b=2"),
    ("https://example.org/?q=x+y", "https://example.org/?q=x%20y"),
    ("https://example.org/?a&", "https://example.org/?a="),
    ("https://example.org/p?utm_source=x&id=3&gclid=9", "https://example.org/p?id=3"),
    ("https://example.org/p#section-2", "https://example.org/p"),
    ("https://example.org/p#:~:text=word", "https://example.org/p"),
    ("https://b\u00fccher.example/", "https://xn--bcher-kva.example"),
    ("http://[2001:DB8:0:0::1]/", "http://[2001:db8::1]"),
    (" https://example.org ", "https://example.org"),
    ("mailto:a@example.org", "mailto:a@example.org"),
]
OTHER = [
    ("https://example.org/a", "https://example.com/a"),
    ("https://example.org/a", "https://m.example.org/a"),
    ("https://example.org/a", "https://example.org/a/"),
    ("https://example.org/a", "https://example.org/A"),
    ("https://example.org/a%2Fb", "https://example.org/a/b"),
    ("https://example.org/?q=a%26b", "https://example.org/?q=a&b"),
    ("https://example.org/?q=a%2Bb", "https://example.org/?q=a+b"),
    ("https://example.org/?q=%ff", "https://example.org/?q=%fe"),
    ("https://example.org/?a=1&a=2", "https://example.org/?a=2&a=1"),
    ("https://example.org/?a=1", "https://example.org/?a=1&b=2"),
    ("https://example.org/#/inbox", "https://example.org/#/sent"),
    ("https://example.org/#!/inbox", "https://example.org/"),
    ("https://example.org:8443/", "https://example.org/"),
    ("http://example.org:443/", "https://example.org:443/"),
    ("https://me:pw@example.org/", "https://example.org/"),
    ("https://me:pw@example.org/", "https://me%3Apw@example.org/"),
    ("https://fa\u00df.example/", "https://fass.example/"),
    ("ftp://example.org/a", "https://example.org/a"),
    ("https://example.org/", "https://example.org\\@evil.example/"),
    ("https://example.org/", "https://example.org@evil.example/"),
    ("https://www.com", "https://com"),
    ("mailto:a@example.org", "mailto:b@example.org"),
    ("javascript:alert(1)", "javascript:alert(2)"),
]


@pytest.mark.parametrize("expected,actual", SAME)
def test_same_page(expected, actual):
    assert compare(expected, actual) is None
    assert compare(actual, expected) is None


@pytest.mark.parametrize("expected,actual", OTHER)
def test_other_page(expected, actual):
    assert compare(expected, actual).reason == "other_value"
    assert compare(actual, expected).reason == "other_value"


NO_URL = ["", "word", "two words", "index", "3.14", "//example.org", "http://", "http://[::1", "http://a:99999/"]
NO_URL += [
    "http://a b.org/",
    "http://%65xample.org/",
    "http://exa\u200bmple.org/",
    "http://\ud800.org/",
    "http://\u2100.org/",
]
NO_URL += ["http://" + "a" * 300 + ".org/", "http://example.org/" + "a" * LONGEST_URL, "http://example..org/"]
NO_URL += ["http://xn--/", "http://xn--\u00e9.org", "http://\u00ad/", "data:text/html,x"]


@pytest.mark.parametrize("text", NO_URL)
def test_what_is_no_url_equals_itself_only(text):
    assert canonical(text) is None
    assert compare(text, text) is None
    assert compare(text, "https://example.org/") is not None


@pytest.mark.parametrize("actual", [None, 1, ["https://example.org"], {"url": "https://example.org"}, float("nan")])
def test_what_is_not_text(actual):
    assert compare("https://example.org", actual).reason == "other_type"


@given(st.text(st.characters(codec=None, exclude_categories=()), max_size=60))
def test_nothing_raises_and_a_canonical_form_is_its_own(text):
    for url in (text, "http://" + text, "http://a.example/" + text, "http://a.example/?" + text):
        form = canonical(url)
        assert form is None or canonical(form) == form
        assert compare(url, url) is None


def test_long_urls_are_judged_soon():
    start = time.perf_counter()
    for text in (
        "." * 8000,
        "../" * 2500,
        "%" * 8000,
        "a=&" * 2600,
        "\u00fc." * 120,
        "a." * 4000,
        "1" * 8000,
        "@" * 8000,
    ):
        for url in (text, "http://" + text, "http://a.example/" + text, "http://a.example/?" + text):
            canonical(url)
    compare("http://a.example/", "http://a.example/" + "a" * 10_000_000)
    assert time.perf_counter() - start < 2
