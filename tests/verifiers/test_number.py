import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pivotrl.verifiers.attempt import Attempt
from pivotrl.verifiers.base import VerifierConfig
from pivotrl.verifiers.number import LONGEST_TEXT, Number, compare, number_of
from pivotrl.verifiers.registry import build_verifier


@pytest.mark.parametrize(
    "text, value",
    [
        (7, 7),
        (2.5, 2.5),
        ("1,234.5", 1234.5),
        ("$1,234.50", 1234.5),
        ("\u20ac5", 5),
        ("1.2345e3", 1234.5),
        ("-3", -3),
        ("\u22123", -3),
        (".5", 0.5),
        ("5.", 5),
        ("1/2", 0.5),
        ("-1/2", -0.5),
        ("\\frac{1}{2}", 0.5),
        ("-\\dfrac{3}{4}", -0.75),
        ("$\\frac{1}{2}$", 0.5),
        ("so \\boxed{42} is it, not 7", 42),
        ("\\boxed{1} then \\boxed{x = \\frac{3}{4}}", 4),
        ("\\boxed{\\frac{3}{4}}", 0.75),
        ("The answer is 5. I checked 3 times", 5),
        ("The answer is **$1,200**.", 1200),
        ("Final answer: 1/2", 0.5),
        ("first 3 and then 4.", 4),
        ("it is 10-3", 3),
        ("12,345,678 people", 12345678),
        ("x=-3", -3),
    ],
)
def test_numbers_are_read(text, value):
    assert number_of(text) == Number(value)


@pytest.mark.parametrize(
    "value", ["", "no", "v1.2", "1e999", True, None, [], {}, float("nan"), float("inf"), 10**400, "e5", "$", "%"]
)
def test_what_is_no_number(value):
    assert number_of(value) is None
    assert compare(5, value).reason == "no_number"
    assert compare(value, 5).reason == "no_number"
    assert compare(value, value) is None


@pytest.mark.parametrize(
    "expected, actual, same",
    [
        (5, "5", True),
        (5, 5.0, True),
        ("5", 6, False),
        (5, "-5", False),
        (0, "0.0", True),
        (0, 1e-9, False),
        (1 / 3, "0.33333333", True),
        (1 / 3, "0.3333", False),
        (1234567, 1234568, False),
        (1.5, 1.5 + 1e-7, True),
        ("50%", 0.5, True),
        ("50%", 50, True),
        (50, "50 percent", True),
        ("50%", "50%", True),
        ("50%", "0.5%", False),
        ("50%", 5, False),
        (True, 1, False),
        ("1,000", "1000", True),
        ("1,000", "1.000", False),
        ("(1, 2)", "(2, 2)", False),
        ("(1, 2)", "It is the point (1, 2).", True),
        ("2024-05-01", "2024-06-01", False),
        ("5", "4 or 5", False),
        ("12", "3 * 4 = 12", True),
        ("9007199254740993", "9007199254740992", False),
        (9007199254740993, 9007199254740992, False),
        ("1200", "1.2 \\times 10^3", True),
        ("1000", "10^{3}", True),
        ("1.5 million", "1500000", True),
        ("1.5 million", "1.5", False),
        ("2 1/2", "2.5", True),
        ("2 1/2", "1/2", False),
    ],
)
def test_numbers_compare(expected, actual, same):
    assert (compare(expected, actual) is None) == same
    assert (compare(actual, expected) is None) == same


def test_tolerances():
    assert compare(100, 104, relative=0.05) is None
    assert compare(100, 106, relative=0.05).reason == "other_value"
    assert compare(0, 0.4, absolute=0.5) is None
    verifier = build_verifier(VerifierConfig(name="number", params={"relative": 0.01}))
    expert = {"type": "message", "content": "The answer is 200."}
    assert verifier.verify(Attempt(expert, [{"type": "message", "content": "about 201"}])).reward == 1
    assert verifier.verify(Attempt(expert, [{"type": "message", "content": "about 201"}]), {"relative": 0}).reward == 0
    assert verifier.verify(Attempt(expert, [{"type": "message", "content": " "}])).reason == "empty_message"
    assert verifier.verify(Attempt(expert, [{"type": "message", "content": "two hundred"}])).reason == "no_number"


def test_the_only_argument_is_the_number():
    def call(text):
        return {"type": "function_call", "name": "submit", "arguments": text}

    verifier = build_verifier(VerifierConfig(name="number"))
    assert verifier.verify(Attempt(call('{"x": 1200}'), [call('{"x": "1,200"}')])).reward == 1
    assert verifier.verify(Attempt(call('{"x": 1200}'), [call('{"x": true}')])).reason == "no_number"
    assert verifier.verify(Attempt(call('{"x": 1200}'), [call('{"x": "it is 1,200"}')])).reason == "no_number"
    assert verifier.verify(Attempt(call('{"x": "a 1"}'), [call('{"x": "b 1"}')])).reason == "other_value"
    assert verifier.verify(Attempt(call('{"answer": "so 1"}'), [call('{"answer": "it is 1.0"}')])).reward == 1
    assert verifier.verify(Attempt(call('{"x": 1, "answer": "7"}'), [call('{"x": 1, "answer": 7}')])).reward == 1


@pytest.mark.parametrize("unit", ["1,", "1", " ", "-", "answer ", "111,", "$ ", "1e1", "answer is ", "\\boxed{", "{"])
def test_hostile_text_is_read_soon(unit):
    start = time.process_time()
    number_of(unit * (LONGEST_TEXT // len(unit)))
    number_of("\\boxed{" + unit * LONGEST_TEXT)
    assert time.process_time() - start < 2


VALUES = st.text(max_size=30) | st.integers() | st.floats() | st.none() | st.booleans() | st.lists(st.integers())
PARTS = st.sampled_from([*"0123456789.,%$-/eE ", "answer is ", "\\boxed{", "}", "\\frac{1}{2}", "percent"])


@settings(max_examples=200, deadline=None)
@given(VALUES | st.lists(PARTS, max_size=8).map("".join), VALUES | st.lists(PARTS, max_size=8).map("".join))
def test_any_pair_gets_an_answer_the_same_both_ways(one, two):
    assert compare(one, one) is None
    assert (compare(one, two) is None) == (compare(two, one) is None)


@settings(max_examples=100, deadline=None)
@given(st.integers(-(10**15), 10**15))
def test_separators_change_nothing(number):
    assert compare(number, f"{number:,}") is None
    assert compare(number, f"{number + 1:,}") is not None
